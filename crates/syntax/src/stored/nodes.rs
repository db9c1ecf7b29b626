//! The fields of the nodes of the tree. Each table names all fields and variants of a type: the compiler lists what
//! is missing, and the text of the tables tells one form of the tree from another.

use super::{Reader, Stored, Writer};
use crate::ast::*;
use crate::warnings::{Level, Stored as Levels};

/// The entries of side tables for a declaration.
pub(super) struct Facts {
    pub(super) throws: Option<ExprId>,
    pub(super) semantic: Option<Symbol>,
    pub(super) registers: Option<Vec<Register>>,
    pub(super) bit_width: Option<ExprId>,
    pub(super) extension: Option<FuncExtension>,
    pub(super) is_class: bool,
}

impl Facts {
    fn of(ast: &Ast, decl: DeclId) -> Option<Facts> {
        let facts = Facts {
            throws: ast.throws.get(&decl).copied(),
            semantic: ast.semantics.get(&decl).copied(),
            registers: ast.registers.get(&decl).cloned(),
            bit_width: ast.bit_widths.get(&decl).copied(),
            extension: ast.extensions.get(&decl).copied(),
            is_class: ast.classes.contains(&decl),
        };
        let is_any = facts.throws.is_some()
            || facts.semantic.is_some()
            || facts.registers.is_some()
            || facts.bit_width.is_some()
            || facts.extension.is_some()
            || facts.is_class;
        is_any.then_some(facts)
    }
}

macro_rules! stored {
    ($($kind:ident $name:ident $body:tt)*) => {
        /// The tables as text.
        pub(super) const FORMS: &[&str] = &[$(stringify!($kind $name $body)),*];
        $(stored_as!($kind $name $body);)*
    };
}

macro_rules! stored_as {
    (record $name:ident { $($field:ident),* }) => {
        impl Stored for $name {
            fn put(&self, w: &mut Writer<'_>) {
                let $name { $($field),* } = self;
                $($field.put(w);)*
            }

            fn take(r: &mut Reader<'_>) -> Option<$name> {
                Some($name { $($field: Stored::take(r)?),* })
            }
        }
    };
    (choice $name:ident {
        $($variant:ident $({ $($field:ident),* })? $(($($part:ident),*))?),*
    }) => {
        impl Stored for $name {
            fn put(&self, w: &mut Writer<'_>) {
                #[allow(clippy::enum_variant_names, reason = "they are those of the tree")]
                enum Number { $($variant),* }
                match self {
                    $($name::$variant $({ $($field),* })? $(($($part),*))? => {
                        w.bytes.push(Number::$variant as u8);
                        $($($field.put(w);)*)?
                        $($($part.put(w);)*)?
                    })*
                }
            }

            #[expect(non_upper_case_globals, reason = "they have the names of the variants")]
            fn take(r: &mut Reader<'_>) -> Option<$name> {
                #[allow(clippy::enum_variant_names, reason = "they are those of the tree")]
                enum Number { $($variant),* }
                $(const $variant: u8 = Number::$variant as u8;)*
                Some(match r.byte()? {
                    $($variant => $name::$variant
                        $({ $($field: Stored::take(r)?),* })?
                        $(($({ let $part = Stored::take(r)?; $part }),*))?,)*
                    _ => return Option::None,
                })
            }
        }
    };
    // Written below.
    (special $name:ident { $($field:ident),* }) => {};
}

stored! {
    record Expr { kind, span }
    choice ExprKind {
        Int { value, suffix }, Float { value, suffix }, Bool(value), String(text), NullPtr, None, Name(name),
        OperatorName(name), GlobalName(name), This, ThisType, Member { base, name, name_span, arrow },
        Static { base, name, name_span }, Index { base, args }, Call { callee, args }, Generic { base, args },
        Unary(op, e), Postfix(op, e), Binary(op, a, b), Assign(op, a, b), Ternary(a, b, c), Cast(a, b),
        TypedList(a, b), Paren(e), InitList(parts), NoDiff(e), Try(e), Derivative(op, e), Is(a, b), As(a, b),
        SizeOf(op, e, layout), Expand(e), Each(e), PackPart(part, e), Shape(op, parts), PackBranch(parts), Pointer(e),
        Modified(modifiers, e), Lambda(decl), FuncType(params, result), Opaque(name), Error
    }
    record Stmt { kind, attributes, span }
    choice StmtKind {
        Empty, Block(parts), Expr(e), Decl(parts), If { cond, then, otherwise }, IfLet { var, then, otherwise },
        For { init, cond, step, body }, While { cond, body }, DoWhile { body, cond }, Switch { scrutinee, cases },
        Break, Continue, Return(value), Discard, TargetSwitch(cases), IntrinsicAsm(text), Defer(body),
        Labeled { label, level, body }, BreakTo { label, level }, Throw(e), DoCatch { body, level, catches },
        Unsupported(name), Error
    }
    record Case { labels, body, span }
    record Attribute { name, args, span }
    choice DeclKind {
        Var { ty, init, semantic }, Tuple { parts, init }, Param { ty, default, semantic }, Func { params, result, body },
        Init { params, body }, Subscript { params, result, accessors }, Property { ty, accessors },
        Accessor { kind, param, body }, Struct { bases, members }, Interface { bases, members },
        Extension { target, bases, members }, Enum { tag, cases }, EnumCase(value), AssociatedType { bases },
        TypeAlias(ty), TypeParam { bases, default }, ValueParam { ty, default }, Namespace { members },
        CBuffer { members }, Import { path, quoted }, Include { path, quoted }, Module(name), Implementing(name),
        Using(e), Unsupported(name), Empty
    }
    record Generics { params, constraints }
    choice Constraint {
        Conforms(left, bounds), Equal(a, b), Optional(left, bounds), Converts { to, from, implicit }, NonEmpty(e),
        Other(span)
    }
    record Register { words, span }
    record FuncExtension { op, target }
    record FileAst { file, decls }
    choice AccessorKind { Get, Set, Ref }
    choice UnaryOp { Plus, Neg, Not, BitNot, PreInc, PreDec, Deref, AddressOf, GetAddress }
    choice BinaryOp {
        Add, Sub, Mul, Div, Rem, Shl, Shr, BitAnd, BitOr, BitXor, And, Or, Eq, Ne, Lt, Le, Gt, Ge, Comma
    }
    choice DiffOp { Fwd, Bwd, Apply, Linearize, Decisions }
    choice SizeOfKind { SizeOf, AlignOf, CountOf }
    choice PackPart { First, Last, TrimFirst, TrimLast }
    choice ShapeOp { Permute, Reduce, Concat, Swap }
    choice Level { Default, Disabled, Error, Once(directive) }
    record Levels { marks, lines, directives }
    record Facts { throws, semantic, registers, bit_width, extension, is_class }
    special Modifiers { bits }
    special Decl { kind, name, name_span, span, modifiers, attributes, generics, parent }
}

impl Stored for Modifiers {
    fn put(&self, w: &mut Writer<'_>) {
        self.0.put(w);
    }

    fn take(r: &mut Reader<'_>) -> Option<Modifiers> {
        Some(Modifiers(Stored::take(r)?))
    }
}

impl Stored for Decl {
    fn put(&self, w: &mut Writer<'_>) {
        let Decl { kind, name, name_span, span, modifiers, attributes, generics, parent } = self;
        kind.put(w);
        name.put(w);
        name_span.put(w);
        span.put(w);
        modifiers.put(w);
        attributes.put(w);
        generics.put(w);
        parent.put(w);
        Facts::of(w.ast, w.at).put(w);
    }

    fn take(r: &mut Reader<'_>) -> Option<Decl> {
        let id = DeclId::from_u32(r.base[2] + r.n_decls);
        r.n_decls += 1;
        let decl = Decl {
            kind: Stored::take(r)?,
            name: Stored::take(r)?,
            name_span: Stored::take(r)?,
            span: Stored::take(r)?,
            modifiers: Stored::take(r)?,
            attributes: Stored::take(r)?,
            generics: Stored::take(r)?,
            parent: {
                // What a declaration is in is no part of it.
                let edges = r.edges.take();
                let parent = Stored::take(r)?;
                r.edges = edges;
                parent
            },
        };
        if let Some(facts) = Stored::take(r)? {
            r.facts.push((id, facts));
        }
        Some(decl)
    }
}
