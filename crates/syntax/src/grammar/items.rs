//! Parses structs, interfaces, extensions, enums, aliases, namespaces and modules.

use crate::ast::*;
use crate::diagnostic::Diagnostic;
use crate::grammar::declarations::Place;
use crate::keywords as kw;
use crate::parser::Parser;
use crate::source::Span;
use crate::token::TokenKind as T;

impl Parser<'_> {
    /// `struct S<T> : A where … { … }`, also `struct { … } x;`
    pub(crate) fn structure(&mut self, id: DeclId, list: &mut Vec<DeclId>) {
        let word = self.bump();
        let mut attributes = Vec::new();
        self.attributes(&mut attributes);
        if let Some(first) = attributes.first() {
            let message = format!("attributes stand before `{}`, not behind it", self.ast.name(word.symbol));
            let warning = Diagnostic::warning("E31204", first.span, message);
            self.warn(warning.help("later versions of the language refuse them here"));
        }
        self.ast.decls[id].attributes.append(&mut attributes);
        if word.symbol == kw::CLASS {
            self.ast.classes.insert(id);
        }
        if word.symbol == kw::UNION {
            self.skip_statement();
            self.ast.decls[id].kind = DeclKind::Unsupported(kw::UNION);
            return;
        }
        let (name, span) = self.type_name(id, word.span);
        self.suffix_generics(id);
        let bases = self.inside(id, Self::bases);
        self.where_clauses(id);
        if self.eat(T::Semi) {
            // `struct S;`
            self.ast.decls[id].kind = DeclKind::Struct { bases, members: Vec::new() };
            return;
        }
        if self.eat(T::Eq) {
            // `struct S = T;` is a link-time type.
            let target = self.ty();
            self.expect_semi();
            self.ast.decls[id].kind = DeclKind::TypeAlias(target);
            return;
        }
        if bases.is_empty() && self.is(T::Ident) {
            // `struct S x;` declares a variable.
            let ty = self.expr_at(span, ExprKind::Name(name));
            let token = self.bump();
            return self.declarators(id, word.span, ty, token.symbol, token.span, list);
        }
        let outer = self.bit_owner.replace(id);
        let members = self.members(id, Place::Member);
        self.bit_owner = outer;
        let decl_span = self.span_from(word.span);
        self.ast.decls[id].kind = DeclKind::Struct { bases, members };
        self.ast.decls[id].span = decl_span;
        self.variables_after(id, list);
    }

    /// Names a struct or an enumeration, which may have no name in the source.
    pub(crate) fn type_name(&mut self, id: DeclId, word: Span) -> (Symbol, Span) {
        let (name, span) = if self.is(T::Ident) {
            let name = self.bump();
            (name.symbol, name.span)
        } else {
            (self.ast.symbols.intern(&format!("__anonymous_{}", id.as_u32())), word)
        };
        self.name_decl(id, name, span);
        (name, span)
    }

    /// `struct { int a; }` where a type is: names the struct, which is declared beside what is being parsed
    pub(crate) fn nameless_struct(&mut self) -> ExprId {
        let start = self.bump().span;
        let outer = std::mem::replace(&mut self.parent, self.container);
        let id = self.new_decl(start);
        let (name, _) = self.type_name(id, start);
        let owner = self.bit_owner.replace(id);
        let members = self.members(id, Place::Member);
        self.bit_owner = owner;
        self.parent = outer;
        self.complete(id, start, DeclKind::Struct { bases: Vec::new(), members });
        self.nameless.push(id);
        self.expr_at(start, ExprKind::Name(name))
    }

    /// `x, y;` after the `}` of a type, on the same line
    fn variables_after(&mut self, id: DeclId, list: &mut Vec<DeclId>) {
        let variable = self.is(T::Ident)
            && !self.current().at_line_start()
            && matches!(self.nth(1), T::Semi | T::Eq | T::Comma | T::LBracket);
        if !variable {
            self.eat(T::Semi);
            return;
        }
        let name = self.bump();
        let (type_name, type_span) = (self.ast.decls[id].name, self.ast.decls[id].name_span);
        let ty = self.expr_at(type_span, ExprKind::Name(type_name));
        let var = self.new_decl(name.span);
        self.ast.decls[var].modifiers = std::mem::take(&mut self.ast.decls[id].modifiers);
        list.push(var);
        self.declarators(var, name.span, ty, name.symbol, name.span, list);
    }

    /// `interface I<T> : A where … { … }`
    pub(crate) fn interface(&mut self, id: DeclId) {
        self.bump();
        let (name, span) = self.expect_name("the interface's name");
        self.name_decl(id, name, span);
        self.suffix_generics(id);
        let (bases, members) = self.bases_and_members(id);
        self.ast.decls[id].kind = DeclKind::Interface { bases, members };
    }

    /// `: A where … { … }`
    fn bases_and_members(&mut self, id: DeclId) -> (Vec<ExprId>, Vec<DeclId>) {
        let bases = self.inside(id, Self::bases);
        self.where_clauses(id);
        let members = if self.eat(T::Semi) { Vec::new() } else { self.members(id, Place::Member) };
        self.eat(T::Semi);
        (bases, members)
    }

    /// `extension<T> X<T> : I where … { … }`
    pub(crate) fn extension(&mut self, id: DeclId) {
        let word = self.bump();
        self.name_decl(id, kw::EMPTY, word.span);
        self.suffix_generics(id);
        let target = self.inside(id, Self::ty_conjunction);
        let (bases, members) = self.bases_and_members(id);
        self.ast.decls[id].kind = DeclKind::Extension { target, bases, members };
    }

    /// `enum class E : int { A, B = 3 }`
    pub(crate) fn enumeration(&mut self, id: DeclId, list: &mut Vec<DeclId>) {
        let word = self.bump();
        let class = self.is_word(kw::CLASS).then(|| self.bump().span);
        if let Some(class) = class {
            self.check_scoped(id, class);
        }
        let (name, name_span) = self.type_name(id, word.span);
        let errors = self.n_errors();
        if self.is(T::Lt) {
            let span = self.span();
            self.generic_params(id);
            if self.n_errors() == 0 && errors == 0 {
                self.error("E0900", span, "a generic enumeration is not supported yet");
            }
        }
        let tag = self.eat(T::Colon).then(|| self.ty());
        let open = self.span();
        // A list without a closing brace ends where a declaration begins that is not indented.
        let is_open = self.is(T::LBrace) && self.partner(self.pos()).is_none();
        if !self.expect(T::LBrace) {
            return self.skip_statement();
        }
        let is_past = |p: &Self| is_open && p.at_margin();
        let case = |p: &mut Self| p.inside(id, |p| p.bracketed(Self::enum_case));
        let is_member = |p: &Self| p.is_member_of_enumeration() && !is_past(p);
        let cases = self.separated_until(|p| p.is(T::RBrace) || is_member(p) || is_past(p), case);
        if is_member(self) {
            // Members behind the cases are those of an extension.
            let start = self.span();
            let extension = self.new_decl(start);
            self.name_decl(extension, kw::EMPTY, start);
            let mut members = Vec::new();
            self.inside(extension, |p| {
                p.bracketed(|p| p.declarations(Place::Member, &mut members, |p| is_past(p)));
            });
            let target = self.expr_at(name_span, ExprKind::Name(name));
            let kind = DeclKind::Extension { target, bases: Vec::new(), members };
            self.complete(extension, start, kind);
            list.push(extension);
        }
        if !self.expect_list_end(T::RBrace, open) {
            while !matches!(self.kind(), T::RBrace | T::Eof) && !is_past(self) {
                self.bump();
            }
            self.eat(T::RBrace);
        }
        self.ast.decls[id].kind = DeclKind::Enum { tag, cases };
        self.variables_after(id, list);
    }

    /// Returns true at a declaration after the cases of an enumeration: `static int n;`, as opposed to `n = 1` and to cases
    /// without a `,` between them.
    fn is_member_of_enumeration(&self) -> bool {
        let next = self.at(self.pos() + 1);
        let is_pair = self.is(T::Ident) && next.kind == T::Ident && !next.at_line_start();
        self.is(T::Semi) || is_pair && !matches!(self.nth(2), T::Comma | T::RBrace | T::Eof)
    }

    /// `enum class`: its cases are named through the enumeration, which therefore has a name.
    fn check_scoped(&mut self, id: DeclId, class: Span) {
        let attributes = &self.ast.decls[id].attributes;
        let unscoped = attributes.iter().find(|a| self.ast.name(a.name) == "UnscopedEnum").map(|a| a.span);
        if let Some(unscoped) = unscoped {
            let error = Diagnostic::error("E31202", unscoped, "`[UnscopedEnum]` contradicts `enum class`");
            self.report(
                error.note(class, "the cases are named through the enumeration").help("remove either"),
            );
        } else if !self.is(T::Ident) {
            let error = Diagnostic::error(
                "E32001",
                class,
                "an `enum class` needs a name: its cases are named through it",
            );
            self.report(error.help("name it, or remove `class`"));
        }
    }

    fn enum_case(&mut self) -> DeclId {
        let start = self.span();
        let id = self.new_decl(start);
        let mut attributes = Vec::new();
        self.attributes(&mut attributes);
        let (name, name_span) = self.expect_name("a case's name");
        let value = self.eat(T::Eq).then(|| self.any_expr());
        self.complete(id, start, DeclKind::EnumCase(value));
        self.name_decl(id, name, name_span);
        self.ast.decls[id].attributes = attributes;
        id
    }

    /// `typedef T N[2];`
    pub(crate) fn typedef(&mut self, id: DeclId) {
        self.bump();
        self.suffix_generics(id);
        let base = self.inside(id, Self::ty_conjunction);
        let (name, span) = self.expect_name("the type's new name");
        self.name_decl(id, name, span);
        let ty = self.dimensions(base);
        self.ast.decls[id].kind = DeclKind::TypeAlias(ty);
        // Slang accepts a `typedef` without a final `;`.
        self.eat(T::Semi);
    }

    /// `typealias N<T> = U where …;`
    pub(crate) fn type_alias(&mut self, id: DeclId) {
        self.bump();
        let (name, span) = self.expect_name("the type's new name");
        self.name_decl(id, name, span);
        self.suffix_generics(id);
        self.where_clauses(id);
        self.expect(T::Eq);
        let ty = self.inside(id, Self::ty_conjunction);
        self.where_clauses(id);
        self.ast.decls[id].kind = DeclKind::TypeAlias(ty);
        self.expect_semi();
    }

    /// `associatedtype T : I where …;`
    pub(crate) fn associated_type(&mut self, id: DeclId) {
        self.bump();
        let (name, span) = self.expect_name("the associated type's name");
        self.name_decl(id, name, span);
        let bases = self.inside(id, Self::bases);
        self.where_clauses(id);
        self.ast.decls[id].kind = DeclKind::AssociatedType { bases };
        self.expect_semi();
    }

    /// `namespace A.B { … }`: nested namespaces
    pub(crate) fn namespace(&mut self, id: DeclId) {
        let word = self.bump();
        let (name, span) = if self.is(T::LBrace) {
            (kw::EMPTY, word.span)
        } else {
            self.expect_name("the namespace's name")
        };
        self.name_decl(id, name, span);
        let mut chain = vec![id];
        while self.eat(T::Dot) || self.eat(T::ColonColon) {
            let (name, span) = self.expect_name("the namespace's name");
            let outer = chain[chain.len() - 1];
            let inner = self.inside(outer, |p| p.new_decl(span));
            self.name_decl(inner, name, span);
            chain.push(inner);
        }
        let innermost = chain[chain.len() - 1];
        let mut members = self.members(innermost, Place::Global);
        self.eat(T::Semi);
        while let Some(namespace) = chain.pop() {
            let span = self.span_from(self.ast.decls[namespace].span);
            self.ast.decls[namespace].kind = DeclKind::Namespace { members };
            self.ast.decls[namespace].span = span;
            members = vec![namespace];
        }
    }

    /// `cbuffer C : register(b0) { … }`
    pub(crate) fn cbuffer(&mut self, id: DeclId, start: Span, list: &mut Vec<DeclId>) {
        let word = self.bump();
        let (mut name, span) =
            if self.is(T::Ident) { self.expect_name("the buffer's name") } else { (kw::EMPTY, word.span) };
        self.name_decl(id, name, span);
        self.semantic();
        self.keep_registers(id);
        let members = self.members(id, Place::Member);
        if !(self.is(T::Ident) && self.nth(1) == T::Semi) {
            self.eat(T::Semi);
            self.ast.decls[id].kind = DeclKind::CBuffer { members };
            return;
        }
        // `cbuffer C { … } c;`: `struct C { … }` and `ConstantBuffer<C> c;`. What is said of the buffer is about the variable.
        let decl = &mut self.ast.decls[id];
        let (modifiers, attributes) =
            (std::mem::take(&mut decl.modifiers), std::mem::take(&mut decl.attributes));
        let registers = self.ast.registers.remove(&id);
        self.complete(id, start, DeclKind::Struct { bases: Vec::new(), members });
        let (variable, span) = self.expect_name("the instance's name");
        if name == kw::EMPTY {
            name = self.ast.symbols.intern(&format!("__{}", self.ast.name(variable)));
            self.ast.decls[id].name = name;
        }
        let content = self.expr_at(span, ExprKind::Name(name));
        let ty = self.generic_type(span, "ConstantBuffer", vec![content]);
        let var = self.instance(start, (variable, span), ty, modifiers, list);
        self.ast.decls[var].attributes = attributes;
        self.ast.registers.extend(registers.map(|registers| (var, registers)));
        self.expect_semi();
    }

    /// `N<A, B>` of the library
    pub(crate) fn generic_type(&mut self, span: Span, name: &str, args: Vec<ExprId>) -> ExprId {
        let name = self.ast.symbols.intern(name);
        let base = self.expr_at(span, ExprKind::Name(name));
        self.expr_at(span, ExprKind::Generic { base, args })
    }

    /// The variable that a block declares behind its members.
    pub(crate) fn instance(
        &mut self,
        start: Span,
        (name, span): (Symbol, Span),
        ty: ExprId,
        modifiers: Modifiers,
        list: &mut Vec<DeclId>,
    ) -> DeclId {
        let var = self.new_decl(span);
        self.ast.decls[var].modifiers = modifiers;
        list.push(var);
        self.name_decl(var, name, span);
        self.complete(var, start, DeclKind::Var { ty: Some(ty), init: None, semantic: None });
        var
    }

    /// `import a.b;`, `__include "file";`, `module m;`, `implementing m;`
    pub(crate) fn module_decl(&mut self, id: DeclId) {
        let word = self.bump();
        let start = self.span();
        let quoted = self.is(T::String);
        let mut path = String::new();
        if quoted {
            let token = self.bump();
            path = crate::literal::unescape(self.ast.name(token.symbol)).unwrap_or_default();
        } else if !self.is(T::Semi) {
            let (name, _) = self.expect_name("a module's name");
            path.push_str(self.ast.name(name));
            while self.eat(T::Dot) || self.eat(T::ColonColon) {
                let (name, _) = self.expect_name("a module's name");
                path.push('/');
                path.push_str(self.ast.name(name));
            }
        }
        let span = self.span_from(start);
        self.name_decl(id, kw::EMPTY, span);
        self.expect_semi();
        self.ast.decls[id].kind = match word.symbol {
            kw::IMPORT | kw::IMPORT_OLD => DeclKind::Import { path, quoted },
            kw::INCLUDE_DECL => DeclKind::Include { path, quoted },
            kw::MODULE => DeclKind::Module(path),
            _ => DeclKind::Implementing(path),
        };
    }

    /// `using namespace A.B;`, `using A;`
    pub(crate) fn using(&mut self, id: DeclId) {
        self.bump();
        self.eat_word(kw::NAMESPACE);
        let target = self.ty();
        self.expect_semi();
        self.ast.decls[id].kind = DeclKind::Using(target);
    }
}
