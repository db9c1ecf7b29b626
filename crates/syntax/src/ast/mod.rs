//! Defines the AST as plain data, in one set of arenas for the whole program.
//!
//! Every file of a program is parsed into the same [`Ast`], so an ID identifies a node of any file, and the
//! side table of a compiler stage is a single map. Types are parsed as expressions, since `A<B>.C[4]` can be
//! either; the checker distinguishes them. The tree corresponds to the source as written: nothing is
//! desugared.

mod declarations;
mod expressions;
mod statements;

use cranelift_entity::{PrimaryMap, entity_impl};
use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::source::{FileId, Span};

pub use declarations::*;
pub use expressions::*;
pub use statements::*;

/// An interned name. The default is the empty name.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(u32);
entity_impl!(Symbol, "sym");

/// An expression (or a type).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(u32);
entity_impl!(ExprId, "expr");

/// A statement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StmtId(u32);
entity_impl!(StmtId, "stmt");

/// A declaration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeclId(u32);
entity_impl!(DeclId, "decl");

/// Interned names. The words of the grammar (`keywords.rs`) are interned first, so their symbols are
/// constants.
#[derive(Clone, Debug)]
pub struct Symbols {
    set: IndexSet<Box<str>, FxBuildHasher>,
    /// For each name, true if it occurs in a file that was read since [`Self::forget_occurrences`].
    occurs: Vec<bool>,
}

impl Default for Symbols {
    fn default() -> Symbols {
        let set: IndexSet<Box<str>, FxBuildHasher> =
            crate::keywords::NAMES.iter().map(|&name| name.into()).collect();
        Symbols { occurs: vec![false; set.len()], set }
    }
}

impl Symbol {
    /// The symbol with this number, for the constants of `keywords.rs`.
    pub(crate) const fn new(number: u32) -> Symbol {
        Symbol(number)
    }

    /// The number of the symbol.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }
}

impl Symbols {
    /// The symbol of a name.
    pub fn intern(&mut self, name: &str) -> Symbol {
        if let Some(idx) = self.set.get_index_of(name) {
            self.occurs[idx] = true;
            return Symbol(idx as u32);
        }
        self.occurs.push(true);
        Symbol(self.set.insert_full(name.into()).0 as u32)
    }

    /// From here on, names that earlier files contain do not count as occurrences.
    pub fn forget_occurrences(&mut self) {
        self.occurs.fill(false);
    }

    /// Returns true if a file that was read since [`Self::forget_occurrences`] contains a name.
    pub fn occurs(&self, name: &str) -> bool {
        self.set.get_index_of(name).is_some_and(|idx| self.occurs[idx])
    }

    /// Returns true if a file that was read since [`Self::forget_occurrences`] contains a name with this prefix.
    pub fn occurs_from(&self, start: &str) -> bool {
        self.set.iter().zip(&self.occurs).any(|(name, occurs)| *occurs && name.starts_with(start))
    }

    /// The symbol of a name, if any file contains the name.
    pub fn find(&self, name: &str) -> Option<Symbol> {
        self.set.get_index_of(name).map(|idx| Symbol(idx as u32))
    }

    /// The name of a symbol.
    pub fn name(&self, symbol: Symbol) -> &str {
        &self.set[symbol.0 as usize]
    }
}

/// The syntax trees of a program.
#[derive(Clone, Debug, Default)]
pub struct Ast {
    /// Names.
    pub symbols: Symbols,
    /// Expressions and types.
    pub exprs: PrimaryMap<ExprId, Expr>,
    /// Statements.
    pub stmts: PrimaryMap<StmtId, Stmt>,
    /// Declarations, a parent before its members.
    pub decls: PrimaryMap<DeclId, Decl>,
    /// One for each parsed file, in order of parsing.
    pub files: Vec<FileAst>,
    /// The warning levels set by `#pragma warning`.
    pub warnings: crate::warnings::WarningLevels,
    /// The error type of each function that throws; used only for lookups.
    pub throws: FxHashMap<DeclId, ExprId>,
    /// The semantic after the parameters of a function, which is that of its result; used only for lookups.
    pub semantics: FxHashMap<DeclId, Symbol>,
    /// The registers that variables and constant buffers are bound to; used only for lookups.
    pub registers: FxHashMap<DeclId, Vec<Register>>,
    /// The structs that are declared as a `class`; used only for lookups.
    pub classes: FxHashSet<DeclId>,
    /// The widths of bit-fields; used only for lookups.
    pub bit_widths: FxHashMap<DeclId, ExprId>,
    /// The heads of the functions that are declared by `__func_extension`; used only for lookups.
    pub extensions: FxHashMap<DeclId, FuncExtension>,
    /// The files in which `(a, b)` is a tuple: those that ask for the language of 2026 or later.
    pub tuple_files: FxHashSet<FileId>,
    /// The versions of the language that files ask for by `#lang`.
    pub languages: Vec<(FileId, u32)>,
    /// Some expression is a `try`.
    pub has_try: bool,
}

impl Ast {
    /// Makes room for as many nodes as a text of so many tokens typically has, because growing the arenas is slow.
    pub fn reserve(&mut self, tokens: usize) {
        self.exprs.reserve(tokens * 2 / 5);
        self.stmts.reserve(tokens / 16);
        self.decls.reserve(tokens / 8);
    }
}

/// A parsed file.
#[derive(Clone, Debug)]
pub struct FileAst {
    /// The file.
    pub file: FileId,
    /// The top-level declarations in order, including imports and module declarations.
    pub decls: Vec<DeclId>,
}

impl Ast {
    /// Has a file, by its index in `files`, import a module of this name, as if it said so at its start.
    pub fn add_import(&mut self, index: usize, path: &str) {
        let span = Span { file: self.files[index].file, start: 0, end: 0 };
        let import = DeclKind::Import { path: path.into(), quoted: false };
        let decl = self.decls.push(Decl::new(import, crate::keywords::EMPTY, span, None));
        self.files[index].decls.push(decl);
    }

    /// The name of a symbol.
    pub fn name(&self, symbol: Symbol) -> &str {
        self.symbols.name(symbol)
    }

    /// The name of a declaration.
    pub fn decl_name(&self, decl: DeclId) -> &str {
        self.name(self.decls[decl].name)
    }

    /// The `try` expressions of a statement, without those of the statements in it, in the order in which they
    /// run: all of them before the rest of the statement.
    pub fn tries(&self, stmt: StmtId) -> Vec<ExprId> {
        let mut found = Vec::new();
        if !self.has_try {
            return found;
        }
        let kind = &self.stmts[stmt].kind;
        let mut open = Vec::new();
        kind.expressions(&mut open);
        for &decl in kind.declarations() {
            open.extend(self.decls[decl].kind.init());
        }
        // Visited from the last operand to the first, the outer before the inner.
        while let Some(expr) = open.pop() {
            let kind = &self.exprs[expr].kind;
            if matches!(kind, ExprKind::Try(_)) {
                found.push(expr);
            }
            kind.operands(&mut open);
        }
        found.reverse();
        found
    }

    /// A declaration and those around it, innermost first.
    pub fn enclosing(&self, decl: DeclId) -> impl Iterator<Item = DeclId> {
        std::iter::successors(Some(decl), |&decl| self.decls[decl].parent)
    }
}
