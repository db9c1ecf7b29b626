//! Small texts, as they are written and as they should be.

use pullback_fmt::{BraceStyle, Edit, Indent, Style, edits, edits_in, edits_on_type, format};

fn formatted(text: &str, style: &Style) -> String {
    let once = format(text, style).expect("no token changes");
    assert_eq!(format(&once, style).as_deref(), Ok(once.as_str()), "formatting again changes nothing");
    once
}

#[track_caller]
fn check(before: &str, after: &str) {
    assert_eq!(formatted(before, &Style::default()), after);
}

#[track_caller]
fn keeps(text: &str) {
    check(text, text);
}

#[test]
fn spaces_around_operators() {
    check("float f(float x){return -x*2+(x-1)/x;}\n", "float f(float x) { return -x * 2 + (x - 1) / x; }\n");
    check("int a=b<c?-1:+1;\n", "int a = b < c ? -1 : +1;\n");
    check("x+=a&b|c; y=!z&&~w; i++; --j;\n", "x += a & b | c; y = !z && ~w; i++; --j;\n");
    check("int a = x >> 2 ; int b = x>>2;\n", "int a = x >> 2; int b = x>>2;\n");
    check("return - 1;\nx = a - - b;\n", "return -1;\nx = a - -b;\n");
}

#[test]
fn generics_are_no_comparisons() {
    check("vector < float,3 > v; Foo<A,Bar<B> > f;\n", "vector < float, 3 > v; Foo<A, Bar<B> > f;\n");
    check("T g<T:IFoo,let N:int>(Box<T,N> x);\n", "T g<T: IFoo, let N: int>(Box<T, N> x);\n");
    keeps("RayQuery<A | B> q;\n");
    check("for(int i=0;i<n;i++) x=a<b;\n", "for (int i = 0; i < n; i++) x = a < b;\n");
    keeps("bool operator==<T : IComparable>(T a, T b);\nbool operator<(A a, B b);\nA operator[](int i);\n");
}

#[test]
fn types_and_pointers_keep_their_stars() {
    keeps("Foo* a = &b; Bar *c; int* d = (int*)e; f(*g, h * k);\n");
    keeps("float x = (float)y; int z = (int)-w;\n");
    keeps("void f()\n{\n    if (a >= (int)b.c) return (T)d;\n}\n");
}

#[test]
fn braces_follow_the_file() {
    check(
        "void f()\n{\n  if (a) {\n    b;\n  }\n}\nvoid g() {\n  c;\n}\nvoid h()\n{\n  d;\n}\n",
        "void f()\n{\n  if (a) {\n    b;\n  }\n}\nvoid g()\n{\n  c;\n}\nvoid h()\n{\n  d;\n}\n",
    );
    check(
        "void f() {\n    if (a)\n    {\n        b;\n    } else {\n        c;\n    }\n    while (d) {\n        e;\n    }\n}\n",
        "void f() {\n    if (a) {\n        b;\n    } else {\n        c;\n    }\n    while (d) {\n        e;\n    }\n}\n",
    );
    let style = Style { braces: Some(BraceStyle::NextLine), ..Style::default() };
    assert_eq!(
        formatted("void f() {\n    if (a) {\n        b;\n    } else {\n        c;\n    }\n}\n", &style),
        "void f()\n{\n    if (a)\n    {\n        b;\n    }\n    else\n    {\n        c;\n    }\n}\n"
    );
}

#[test]
fn indentation_follows_the_file_or_the_style() {
    check(
        "void f()\n{\n  a;\n      b;\n  if (c)\n  d;\n  e;\n}\n",
        "void f()\n{\n  a;\n  b;\n  if (c)\n    d;\n  e;\n}\n",
    );
    let tabs = Style { indent: Some(Indent::Tab(4)), ..Style::default() };
    assert_eq!(formatted("void f()\n{\n  a;\n}\n", &tabs), "void f()\n{\n\ta;\n}\n");
}

#[test]
fn bodies_without_braces() {
    check(
        "void f()\n{\nif (a)\nfor (;;)\nif (b)\nc;\nelse\nd;\nelse if (e)\nf;\nelse\ng;\nh;\ndo\ni;\nwhile (j);\nk;\n}\n",
        "void f()\n{\n    if (a)\n        for (;;)\n            if (b)\n                c;\n            else\n                d;\n    \
         else if (e)\n        f;\n    else\n        g;\n    h;\n    do\n        i;\n    while (j);\n    k;\n}\n",
    );
}

#[test]
fn labels() {
    keeps(
        "void f()\n{\n    switch (a)\n    {\n    case 0: return 1;\n    case 1:\n        b;\n        break;\n    default:\n    {\n        c;\n    }\n    }\n}\n",
    );
    keeps(
        "void f() {\n    switch (a) {\n        case 0:\n            // so\n            b;\n        default:\n            c;\n    }\n}\n",
    );
}

#[test]
fn continuation_lines_are_indented_or_aligned() {
    check("void f()\n{\nx = a +\nb;\n}\n", "void f()\n{\n    x = a +\n    b;\n}\n");
    keeps(
        "void f()\n{\n    x = a +\n        b;\n    y = g(c,\n          d);\n    z = h(\n        e,\n        k\n    );\n    return p &&\n           q;\n}\n",
    );
    keeps("void f(\n    float a,\n    float b = c +\n        d)\n{\n}\n");
    keeps("void f(float a, float b)\n    where A : B\n    where C : D\n{\n    e;\n}\n");
}

#[test]
fn columns_are_kept() {
    check(
        "struct S\n{\n  float3  a : A;   // one\n  int     bcd : B; // two\n}\n",
        "struct S\n{\n  float3 a : A;   // one\n  int    bcd : B; // two\n}\n",
    );
    keeps("float m[2][2] = {\n    { 1.0,  0.5 },\n    { 0.25, 2.0 },\n};\n");
    keeps("    #define A 1\n#  define BC 2\n");
}

#[test]
fn blank_lines() {
    check(
        "\n\nint a;\n\n\n\n\nint b;\nvoid f()\n{\n\n  c;\n\n}\n\n\n",
        "int a;\n\n\nint b;\nvoid f()\n{\n  c;\n}\n",
    );
}

#[test]
fn long_lines_are_broken() {
    let style = Style { max_width: 42, ..Style::default() };
    assert_eq!(
        formatted("void f()\n{\n    value = combine(first_argument, second_argument);\n}\n", &style),
        "void f()\n{\n    value = combine(\n        first_argument, second_argument);\n}\n"
    );
    assert_eq!(
        formatted("bool b = is_one(aaaa) && is_two(bbbb) && is_three(cccc);\n", &style),
        "bool b = is_one(aaaa) && is_two(bbbb) &&\n    is_three(cccc);\n"
    );
    assert_eq!(
        formatted("float f(float x) { return sin(x) * cos(x) * x; }\n", &style),
        "float f(float x)\n{\n    return sin(x) * cos(x) * x;\n}\n"
    );
}

#[test]
fn directives_and_branches() {
    keeps(
        "#if A\nvoid f(int a) {\n#else\nvoid f() {\n#endif\n    b;\n}\n#define M(x) \\\n  do { x;   } \\\n  while (0)\n",
    );
    keeps("void f()\n{\n    a;\n#if B\n    b;\n#endif\n    #pragma c\n    d;\n}\n");
}

#[test]
fn comments() {
    check(
        "void f()\n{\n /* one\n    two */\n a; // b   \n   // c\n}\n",
        "void f()\n{\n /* one\n    two */\n a; // b\n // c\n}\n".replace("\n ", "\n    ").as_str(),
    );
    keeps("void f()\n{\n    a = b;\n      //^ error: here\n//  old();\n    c;\n}\n");
    keeps("a(/* x */ 1, // y\n    2);\n");
}

#[test]
fn text_that_white_space_changes() {
    keeps("#define STRING(x) #x\nconst char* s = STRING(a+b);\n");
    keeps("// pullback-fmt off\nint   a  =  1 ;\n// pullback-fmt on\nint b = 2;\n");
    check(
        "int a = 1; // \\\n   still the comment\nint  b;\n",
        "int a = 1; // \\\n   still the comment\nint b;\n",
    );
    keeps("const char* s = R\"(a  b\n   c)\";\n");
    check("int  a;\r\nint b;\r\n", "int a;\r\nint b;\r\n");
}

/// The text after edits, which must not overlap.
fn applied(text: &str, edits: &[Edit]) -> String {
    let mut out = String::new();
    let mut at = 0;
    for edit in edits {
        assert!(edit.range.start >= at, "{edits:?}");
        out += &text[at..edit.range.start];
        out += &edit.text;
        at = edit.range.end;
    }
    out + &text[at..]
}

#[test]
fn edits_make_the_formatted_text() {
    let text = "\nvoid f( ){\n\n  a = 1+2 ;\n// b  \n}\n";
    let edits = edits(text, &Style::default()).expect("no token changes");
    assert_eq!(applied(text, &edits), formatted(text, &Style::default()));
}

#[test]
fn edits_of_a_range_leave_the_other_lines() {
    let text = "void f()\n{\n  a=1;\n      b=2;\n  c=3;\n}\n";
    let at = text.find("b=").expect("it is there");
    let edits = edits_in(text, &Style::default(), at..at + 1).expect("no token changes");
    assert_eq!(applied(text, &edits), "void f()\n{\n  a=1;\n  b = 2;\n  c=3;\n}\n");
}

#[test]
fn edits_while_one_types() {
    let style = Style { indent: Some(Indent::Spaces(4)), ..Style::default() };
    let typed = |before: &str, after: &str, character| {
        let text = format!("{before}{after}");
        let edits = edits_on_type(&text, &style, before.len(), character).expect("no token changes");
        applied(&text, &edits)
    };
    assert_eq!(typed("void f()\n{\n  x=1;", "\n  y=2;\n}\n", ';'), "void f()\n{\n    x = 1;\n  y=2;\n}\n");
    assert_eq!(
        typed("void f()\n{\nif(a)\n{\nb=1;\n}", "\nc=1;\n}\n", '}'),
        "void f()\n{\n    if (a)\n    {\n        b = 1;\n    }\nc=1;\n}\n"
    );
    assert_eq!(typed("void f()\n{\n", "\n}\n", '\n'), "void f()\n{\n    \n}\n");
    assert_eq!(typed("void f()\n{\n    if (a)\n", "", '\n'), "void f()\n{\n    if (a)\n        ");
}

#[test]
fn a_comment_that_goes_on_ends_with_the_file() {
    for text in ["// a\\", "x;\n// a\\\n b\\", "/* a */ // b\\"] {
        keeps(text);
    }
}
