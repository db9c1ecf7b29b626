//! Trees as bytes: `read(write(tree)) = tree`, with other numbers.
//!
//! [`write()`] takes the tree of a module, all of it; [`read`] adds it to the tree of a program, so that a module is
//! loaded without lexing, preprocessing or parsing. The bytes have neither comments nor layout nor macros, only where
//! each node was in its file.
//!
//! The content is a table of names, then the nodes of each arena in order, declarations with what side tables say of
//! them. A number takes a byte for every seven bits; a reference to a node is the difference from the reference before
//! it in the same arena, and a location that from the location before it, so that most of them take one byte.
//!
//! Nothing is believed: `read` returns `None` for bytes that are no tree, whatever they are. Every reference is to a
//! node that is there, and `shape` checks what the parser guarantees and others rely on.

mod nodes;
mod shape;

use cranelift_entity::{EntityRef, PrimaryMap};
use rustc_hash::FxHashMap;

use crate::ast::*;
use crate::source::{FileId, Span};
use crate::warnings::Stored as StoredLevels;
use nodes::Facts;

/// A number for the form of stored trees. Another form of the tree has another number.
pub fn form() -> u64 {
    let words = Modifiers::WORDS.iter().map(|word| word.1);
    let texts = nodes::FORMS.iter().copied().chain(words);
    texts
        .flat_map(str::bytes)
        .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// The bytes of a tree. Its files are those of one module and no others.
pub fn write(ast: &Ast) -> Vec<u8> {
    let mut w = Writer {
        ast,
        bytes: Vec::new(),
        symbols: FxHashMap::default(),
        names: Vec::new(),
        last: Last::default(),
        at: DeclId::from_u32(0),
    };
    for count in [ast.exprs.len(), ast.stmts.len(), ast.decls.len()] {
        (count as u64).put(&mut w);
    }
    ast.exprs.values().for_each(|node| node.put(&mut w));
    ast.stmts.values().for_each(|node| node.put(&mut w));
    for (decl, node) in &ast.decls {
        w.at = decl;
        node.put(&mut w);
    }
    ast.files.put(&mut w);
    let mut tuples: Vec<FileId> = ast.tuple_files.iter().copied().collect();
    tuples.sort_unstable();
    tuples.put(&mut w);
    ast.languages.put(&mut w);
    ast.has_try.put(&mut w);
    ast.warnings.stored().put(&mut w);

    let body = std::mem::take(&mut w.bytes);
    let names = std::mem::take(&mut w.names);
    (names.len() as u64).put(&mut w);
    for name in names {
        ast.name(name).to_string().put(&mut w);
    }
    w.bytes.extend(body);
    w.bytes
}

/// Adds a stored tree to the tree of a program; `files` are the files of the module in their order, each with its
/// length. Returns the indices in [`Ast::files`] of what was added, or `None`, and then nothing was added.
pub fn read(bytes: &[u8], ast: &mut Ast, files: &[(FileId, u32)]) -> Option<Vec<usize>> {
    let base = [ast.exprs.len() as u32, ast.stmts.len() as u32, ast.decls.len() as u32];
    let added = add(bytes, ast, files, base);
    if added.is_none() {
        // Rules that look at every node of a program would find these, which have not been proved to be a tree.
        truncate(&mut ast.exprs, base[0]);
        truncate(&mut ast.stmts, base[1]);
        truncate(&mut ast.decls, base[2]);
    }
    added
}

fn truncate<K: EntityRef, T>(map: &mut PrimaryMap<K, T>, len: u32) {
    let all = std::mem::take(map);
    *map = all.into_iter().map(|(_, node)| node).take(len as usize).collect();
}

/// Adds the nodes, and when all of them are proved to be a tree, what belongs to them.
fn add(bytes: &[u8], ast: &mut Ast, files: &[(FileId, u32)], base: [u32; 3]) -> Option<Vec<usize>> {
    let mut r = Reader {
        bytes,
        names: Vec::new(),
        files,
        base,
        counts: [0; 3],
        edges: None,
        facts: Vec::new(),
        n_decls: 0,
        last: Last::default(),
    };
    for _ in 0..u64::take(&mut r)? {
        let name = r.text()?;
        r.names.push(ast.symbols.intern(name));
    }
    for k in 0..3 {
        r.counts[k] = u32::take(&mut r)?;
        // A node has more than one byte.
        (r.counts[k] as usize <= bytes.len()).then_some(())?;
    }
    let mut edges = Edges::default();
    r.nodes(&mut ast.exprs, 0, &mut edges)?;
    r.nodes(&mut ast.stmts, 1, &mut edges)?;
    r.nodes(&mut ast.decls, 2, &mut edges)?;
    let trees: Vec<FileAst> = Stored::take(&mut r)?;
    let tuples: Vec<FileId> = Stored::take(&mut r)?;
    let languages: Vec<(FileId, u32)> = Stored::take(&mut r)?;
    let has_try = bool::take(&mut r)?;
    let levels = StoredLevels::take(&mut r)?;
    let Reader { bytes: rest, facts, .. } = r;
    let found = shape::Nodes { ast, base };
    let fits = rest.is_empty() && found.is_forest(edges) && found.has_roles(&trees, &facts);
    fits.then_some(())?;

    for (decl, facts) in facts {
        ast.throws.extend(facts.throws.map(|fact| (decl, fact)));
        ast.semantics.extend(facts.semantic.map(|fact| (decl, fact)));
        ast.registers.extend(facts.registers.map(|fact| (decl, fact)));
        ast.bit_widths.extend(facts.bit_width.map(|fact| (decl, fact)));
        ast.extensions.extend(facts.extension.map(|fact| (decl, fact)));
        ast.classes.extend(facts.is_class.then_some(decl));
    }
    ast.tuple_files.extend(tuples);
    ast.languages.extend(languages);
    ast.has_try |= has_try;
    ast.warnings.add(levels);
    let first = ast.files.len();
    ast.files.extend(trees);
    Some((first..ast.files.len()).collect())
}

/// The parts of each node, by their numbers among all nodes of the module.
#[derive(Default)]
struct Edges {
    /// For each node, where its parts begin.
    starts: Vec<u32>,
    parts: Vec<u32>,
}

/// A part of a tree: `take` reads what `put` has written.
trait Stored: Sized {
    fn put(&self, w: &mut Writer<'_>);
    fn take(r: &mut Reader<'_>) -> Option<Self>;
}

/// The last reference to each arena, and the last location.
#[derive(Default)]
struct Last {
    nodes: [u32; 3],
    file: u32,
    start: u32,
}

struct Writer<'a> {
    ast: &'a Ast,
    bytes: Vec<u8>,
    symbols: FxHashMap<Symbol, u32>,
    names: Vec<Symbol>,
    last: Last,
    /// The declaration that is being written.
    at: DeclId,
}

struct Reader<'a> {
    /// The bytes that are left.
    bytes: &'a [u8],
    names: Vec<Symbol>,
    files: &'a [(FileId, u32)],
    /// The number of nodes that each arena of the program had before.
    base: [u32; 3],
    counts: [u32; 3],
    /// The parts of nodes, while nodes are read.
    edges: Option<Vec<u32>>,
    /// The number of declarations that have been read, and what side tables say of them.
    n_decls: u32,
    facts: Vec<(DeclId, Facts)>,
    last: Last,
}

impl Writer<'_> {
    fn reference(&mut self, arena: usize, id: u32) {
        let step = i64::from(id) - i64::from(self.last.nodes[arena]);
        self.last.nodes[arena] = id;
        folded(step).put(self);
    }
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    /// A number below the given one.
    fn below(&mut self, end: usize) -> Option<usize> {
        let number = usize::try_from(u64::take(self)?).ok()?;
        (number < end).then_some(number)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.below(self.bytes.len() + 1)?;
        let (text, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        std::str::from_utf8(text).ok()
    }

    /// A reference to a node; the node that is being read has it as its part.
    fn part(&mut self, arena: usize) -> Option<u32> {
        let id = self.reference(arena)?;
        let before: u32 = self.counts[..arena].iter().sum();
        if let Some(edges) = &mut self.edges {
            edges.push(before + id);
        }
        Some(self.base[arena] + id)
    }

    /// The number of a node in its arena, counted from the first of the module.
    fn reference(&mut self, arena: usize) -> Option<u32> {
        let id = i64::from(self.last.nodes[arena]).checked_add(unfolded(u64::take(self)?))?;
        let id = u32::try_from(id).ok().filter(|&id| id < self.counts[arena])?;
        self.last.nodes[arena] = id;
        Some(id)
    }

    /// Reads the nodes of an arena.
    fn nodes<K: EntityRef, T: Stored>(
        &mut self,
        into: &mut PrimaryMap<K, T>,
        arena: usize,
        edges: &mut Edges,
    ) -> Option<()> {
        self.edges = Some(std::mem::take(&mut edges.parts));
        into.reserve(self.counts[arena] as usize);
        for _ in 0..self.counts[arena] {
            edges.starts.push(self.edges.as_ref().map_or(0, |parts| parts.len() as u32));
            let node = T::take(self)?;
            into.push(node);
        }
        edges.parts = self.edges.take().unwrap_or_default();
        Some(())
    }
}

/// A number with its sign as the lowest bit.
fn folded(number: i64) -> u64 {
    (number as u64) << 1 ^ (number >> 63) as u64
}

fn unfolded(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

impl Stored for u64 {
    fn put(&self, w: &mut Writer<'_>) {
        let mut rest = *self;
        while rest >= 0x80 {
            w.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        w.bytes.push(rest as u8);
    }

    fn take(r: &mut Reader<'_>) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = r.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

impl Stored for u32 {
    fn put(&self, w: &mut Writer<'_>) {
        u64::from(*self).put(w);
    }

    fn take(r: &mut Reader<'_>) -> Option<u32> {
        u64::take(r)?.try_into().ok()
    }
}

impl Stored for bool {
    fn put(&self, w: &mut Writer<'_>) {
        w.bytes.push(u8::from(*self));
    }

    fn take(r: &mut Reader<'_>) -> Option<bool> {
        Some(r.below(2)? == 1)
    }
}

impl Stored for f64 {
    fn put(&self, w: &mut Writer<'_>) {
        w.bytes.extend(self.to_bits().to_le_bytes());
    }

    fn take(r: &mut Reader<'_>) -> Option<f64> {
        let (bytes, rest) = r.bytes.split_first_chunk()?;
        r.bytes = rest;
        Some(f64::from_bits(u64::from_le_bytes(*bytes)))
    }
}

impl Stored for String {
    fn put(&self, w: &mut Writer<'_>) {
        (self.len() as u64).put(w);
        w.bytes.extend(self.as_bytes());
    }

    fn take(r: &mut Reader<'_>) -> Option<String> {
        Some(r.text()?.to_owned())
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn put(&self, w: &mut Writer<'_>) {
        (self.len() as u64).put(w);
        self.iter().for_each(|item| item.put(w));
    }

    fn take(r: &mut Reader<'_>) -> Option<Vec<T>> {
        // Each item has at least one byte.
        let n = r.below(r.bytes.len() + 1)?;
        let mut items = Vec::new();
        for _ in 0..n {
            items.push(T::take(r)?);
        }
        Some(items)
    }
}

impl<T: Stored> Stored for Option<T> {
    fn put(&self, w: &mut Writer<'_>) {
        self.is_some().put(w);
        if let Some(value) = self {
            value.put(w);
        }
    }

    fn take(r: &mut Reader<'_>) -> Option<Option<T>> {
        Some(if bool::take(r)? { Some(T::take(r)?) } else { None })
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn put(&self, w: &mut Writer<'_>) {
        self.0.put(w);
        self.1.put(w);
    }

    fn take(r: &mut Reader<'_>) -> Option<(A, B)> {
        Some((A::take(r)?, B::take(r)?))
    }
}

impl Stored for [ExprId; 3] {
    fn put(&self, w: &mut Writer<'_>) {
        self.iter().for_each(|id| id.put(w));
    }

    fn take(r: &mut Reader<'_>) -> Option<[ExprId; 3]> {
        Some([ExprId::take(r)?, ExprId::take(r)?, ExprId::take(r)?])
    }
}

macro_rules! ids {
    ($($id:ident = $arena:literal),*) => {
        $(impl Stored for $id {
            fn put(&self, w: &mut Writer<'_>) {
                w.reference($arena, self.as_u32());
            }

            fn take(r: &mut Reader<'_>) -> Option<$id> {
                Some($id::from_u32(r.part($arena)?))
            }
        })*
    };
}

ids! { ExprId = 0, StmtId = 1, DeclId = 2 }

impl Stored for Symbol {
    fn put(&self, w: &mut Writer<'_>) {
        let number = match w.symbols.get(self) {
            Some(&number) => number,
            None => {
                w.names.push(*self);
                w.symbols.insert(*self, w.names.len() as u32 - 1);
                w.names.len() as u32 - 1
            }
        };
        number.put(w);
    }

    fn take(r: &mut Reader<'_>) -> Option<Symbol> {
        let number = r.below(r.names.len())?;
        Some(r.names[number])
    }
}

impl Stored for FileId {
    fn put(&self, w: &mut Writer<'_>) {
        self.0.put(w);
    }

    fn take(r: &mut Reader<'_>) -> Option<FileId> {
        let number = r.below(r.files.len())?;
        Some(r.files[number].0)
    }
}

/// The file if it is another than before, the step to the start, and the length. A place that is a file as a whole has
/// a start that is no step away from any other.
impl Stored for Span {
    fn put(&self, w: &mut Writer<'_>) {
        let same = w.last.file == self.file.0;
        let step = i64::from(self.start) - i64::from(w.last.start);
        (folded(step) << 1 | u64::from(!same)).put(w);
        if !same {
            self.file.0.put(w);
        }
        self.end.wrapping_sub(self.start).put(w);
        (w.last.file, w.last.start) = (self.file.0, self.start);
    }

    fn take(r: &mut Reader<'_>) -> Option<Span> {
        let step = u64::take(r)?;
        if step & 1 == 1 {
            r.last.file = u32::take(r)?;
        }
        let start = i64::from(r.last.start).checked_add(unfolded(step >> 1))?;
        let start = u32::try_from(start).ok()?;
        let end = start.wrapping_add(u32::take(r)?);
        r.last.start = start;
        let (file, length) = *r.files.get(r.last.file as usize)?;
        let span = Span { file, start, end };
        let fits = if span.is_place() { start <= end && end <= length } else { end == start };
        fits.then_some(span)
    }
}
