//! A module of LLVM's as data, which is only printed for LLVM or for a reader.

use std::fmt::Write as _;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

pub(crate) type FxIndexMap<K, V> = IndexMap<K, V, FxBuildHasher>;

/// A function that is to be inlined stays a call if all its copies together had more bytes of text than this, since
/// compiling them took longer than anything else.
const MOST_COPIED: usize = 512 << 10;

/// A function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Function {
    /// The name, without `@`.
    pub(crate) name: String,
    pub(crate) linkage: Linkage,
    /// The calling convention and the type of the result.
    pub(crate) result: String,
    /// The parameters, separated by commas.
    pub(crate) params: String,
    /// The attributes.
    pub(crate) about: String,
    /// The metadata of the definition: see `debug`.
    pub(crate) debug: String,
    /// The blocks.
    pub(crate) body: String,
    /// The defined functions that the body calls, with the number of calls.
    pub(crate) callees: FxIndexMap<String, usize>,
    /// The function is to be inlined, so each part of a module that calls it has its own copy.
    pub(crate) is_copied: bool,
    /// An upper bound of the size of its frame in bytes.
    pub(crate) frame: u64,
}

/// The visibility of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Linkage {
    /// Only in the module.
    #[default]
    Internal,
    /// In all modules that are linked together.
    #[cfg_attr(not(feature = "jit"), expect(dead_code, reason = "a text by itself is one module"))]
    Hidden,
    /// Everywhere.
    External,
}

impl Function {
    /// A function without a body that is visible everywhere and has no result.
    pub(crate) fn external(name: &str, params: &str, about: &str) -> Function {
        Function {
            name: name.to_string(),
            linkage: Linkage::External,
            result: "void".to_string(),
            params: params.to_string(),
            about: about.to_string(),
            ..Function::default()
        }
    }

    /// The number of bytes of text, roughly.
    pub(crate) fn len(&self) -> usize {
        self.body.len() + self.params.len() + self.about.len()
    }

    fn write_head(&self, out: &mut String, keyword: &str, linkage: Linkage) {
        let linkage = match linkage {
            Linkage::External => "",
            Linkage::Hidden => "hidden ",
            Linkage::Internal => "internal ",
        };
        let Function { result, name, params, about, .. } = self;
        let _ = write!(out, "{keyword} {linkage}{result} @{name}({params}) {about}");
    }

    /// Writes the declaration of the function for modules that it is linked with.
    #[cfg(feature = "jit")]
    pub(crate) fn declare(&self, out: &mut String) {
        self.write_head(out, "declare", self.seen_by_all());
        out.push('\n');
    }

    /// Writes the definition.
    pub(crate) fn define(&self, out: &mut String, linkage: Linkage) {
        self.write_head(out, "define", linkage);
        let _ = write!(out, "{} {{\n{}}}\n\n", self.debug, self.body);
    }

    /// The linkage that makes the function visible to modules that it is linked with.
    #[cfg(feature = "jit")]
    pub(crate) fn seen_by_all(&self) -> Linkage {
        if self.linkage == Linkage::Internal { Linkage::Hidden } else { self.linkage }
    }
}

/// A module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unit {
    /// The metadata.
    pub(crate) head: String,
    /// The definition or declaration of each global.
    pub(crate) globals: FxIndexMap<String, String>,
    /// The result, parameters and attributes of each function that is declared only.
    pub(crate) declared: FxIndexMap<String, (String, String)>,
    /// The functions.
    pub(crate) functions: Vec<Function>,
}

impl Unit {
    /// Writes all that precedes the functions.
    pub(crate) fn write_head(&self, out: &mut String) {
        out.push_str(&self.head);
        for (name, definition) in &self.globals {
            let _ = writeln!(out, "@{name} = {definition}");
        }
        for (name, (result, rest)) in &self.declared {
            let _ = writeln!(out, "declare {result} @{name}({rest}");
        }
        out.push('\n');
    }

    /// The text.
    pub(crate) fn print(&self) -> String {
        let mut text = String::with_capacity(self.len() + (self.len() >> 4));
        self.write_head(&mut text);
        for function in &self.functions {
            function.define(&mut text, function.linkage);
        }
        text
    }

    /// The number of bytes of the functions' text, roughly.
    pub(crate) fn len(&self) -> usize {
        self.functions.iter().map(Function::len).sum()
    }

    /// Keeps the calls of functions that are called in very many places.
    pub(crate) fn keep_calls(&mut self) {
        let mut calls: FxIndexMap<&str, usize> = FxIndexMap::default();
        for (name, n) in self.functions.iter().flat_map(|function| &function.callees) {
            *calls.entry(name).or_default() += n;
        }
        let copied = |f: &Function| f.len().saturating_mul(calls.get(&f.name[..]).copied().unwrap_or(0));
        let is_too_much = |f: &&Function| f.is_copied && copied(f) > MOST_COPIED;
        let kept: Vec<String> = self.functions.iter().filter(is_too_much).map(|f| f.name.clone()).collect();
        for function in self.functions.iter_mut().filter(|f| kept.contains(&f.name)) {
            if !function.about.starts_with("noinline") {
                function.about.insert_str(0, "noinline ");
            }
        }
    }

    /// Defines a global, or replaces its declaration.
    pub(crate) fn global(&mut self, name: &str, definition: String) {
        self.globals.insert(name.to_string(), definition);
    }
}

#[cfg(test)]
mod tests {
    use super::{Function, MOST_COPIED, Unit};

    #[test]
    fn what_is_called_in_many_places_is_not_inlined() {
        let math = |name: &str| Function {
            name: name.to_string(),
            about: "nounwind".to_string(),
            body: " ".repeat(MOST_COPIED / 100),
            is_copied: true,
            ..Function::default()
        };
        let mut caller = Function::default();
        caller.callees.insert("often".to_string(), 60);
        caller.callees.insert("seldom".to_string(), 99);
        let mut other = Function::default();
        other.callees.insert("often".to_string(), 60);
        let mut unit =
            Unit { functions: vec![caller, other, math("often"), math("seldom")], ..Unit::default() };
        unit.functions[3].about.clear();
        unit.keep_calls();
        assert_eq!(unit.functions[2].about, "noinline nounwind");
        assert_eq!(unit.functions[3].about, "");
    }
}
