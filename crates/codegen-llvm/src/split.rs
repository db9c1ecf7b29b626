//! Splits a module into parts that LLVM compiles in parallel.
//!
//! Functions that are not connected by calls, such as the entry points for lanes and for one thread, go to
//! different parts. The functions of a large module are distributed in order, each part up to a certain size.
//! A function that was internal to the module is then visible to all parts, and each part declares the
//! functions of other parts that it calls. Mathematical functions are an exception: they are to be inlined,
//! so each part that calls one has its own copy. Together the parts mean what the module means.

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::unit::{Function, Unit};

/// The size of a part in bytes; and the size up to which a module is only split between functions that no
/// calls connect.
const PART: usize = 256 << 10;
const WHOLE: usize = 384 << 10;
/// The size in bytes up to which a module is never split.
const LITTLE: usize = 8 << 10;
/// The largest number of parts for functions that are not connected by calls.
const APART: usize = 4;

type Numbers = IndexSet<usize, FxBuildHasher>;

/// The texts of the parts of a module.
pub(crate) fn parts(unit: &Unit) -> Vec<String> {
    match unit.len() {
        n if n <= LITTLE => vec![unit.print()],
        n if n <= WHOLE => Graph::new(unit).apart(APART),
        _ => Graph::new(unit).parts_of(PART),
    }
}

/// The functions of a module, and the numbers of the functions that each calls.
struct Graph<'u> {
    unit: &'u Unit,
    callees: Vec<Vec<usize>>,
}

/// The relation of a part to the other parts of a module.
#[derive(Clone, Copy, PartialEq)]
enum Border {
    /// No function calls one of another part.
    Closed,
    /// The functions of all parts see each other.
    Open,
}

impl<'u> Graph<'u> {
    fn new(unit: &'u Unit) -> Graph<'u> {
        let numbers: FxHashMap<&str, usize> =
            unit.functions.iter().enumerate().map(|(k, f)| (&f.name[..], k)).collect();
        let called =
            |f: &Function| f.callees.keys().filter_map(|name| numbers.get(&name[..]).copied()).collect();
        Graph { unit, callees: unit.functions.iter().map(called).collect() }
    }

    /// The functions of which there is only one copy.
    fn single(&self) -> impl Iterator<Item = (usize, &'u Function)> {
        self.unit.functions.iter().enumerate().filter(|(_, f)| !f.is_copied)
    }

    /// Splits the module into at most `most` parts, such that no function calls one of another part.
    fn apart(&self, most: usize) -> Vec<String> {
        // A union-find forest whose roots are the smallest function numbers of the connected components.
        let all = &self.unit.functions;
        let mut of: Vec<usize> = (0..all.len()).collect();
        let find = |of: &[usize], mut k: usize| {
            while of[k] != k {
                k = of[k];
            }
            k
        };
        for (k, _) in self.single() {
            for &other in self.callees[k].iter().filter(|&&other| !all[other].is_copied) {
                let (a, b) = (find(&of, k), find(&of, other));
                of[a.max(b)] = a.min(b);
            }
        }
        let mut bytes = vec![0; all.len()];
        for (k, function) in self.single() {
            bytes[find(&of, k)] += function.len();
        }
        // Assign the components to parts, largest first, each to the part that is smallest so far.
        let mut groups: Vec<usize> = (0..all.len()).filter(|&k| bytes[k] > 0).collect();
        groups.sort_by_key(|&k| std::cmp::Reverse(bytes[k]));
        let mut sizes = vec![0; most.min(groups.len())];
        let mut part_of = vec![0; all.len()];
        for group in groups {
            let part = (0..sizes.len()).min_by_key(|&p| sizes[p]).unwrap_or(0);
            sizes[part] += bytes[group];
            part_of[group] = part;
        }
        let is_in = |k: usize, part: usize| part_of[find(&of, k)] == part;
        (0..sizes.len())
            .map(|part| {
                self.part(self.single().map(|(k, _)| k).filter(|&k| is_in(k, part)).collect(), Border::Closed)
            })
            .collect()
    }

    /// Splits the module into parts of about `size` bytes.
    fn parts_of(&self, size: usize) -> Vec<String> {
        let mut parts = Vec::new();
        let mut rest = self.single().peekable();
        while rest.peek().is_some() {
            let mut own = Numbers::default();
            let mut bytes = 0;
            while let Some((k, function)) = rest.next_if(|(_, f)| bytes == 0 || bytes + f.len() <= size) {
                bytes += function.len();
                own.insert(k);
            }
            parts.push(self.part(own, Border::Open));
        }
        parts
    }

    /// The text of a part that consists of these functions and copies of those that they call.
    fn part(&self, mut own: Numbers, border: Border) -> String {
        let shared = border == Border::Open;
        let all = &self.unit.functions;
        let mut declared = Numbers::default();
        let mut at = 0;
        while let Some(&k) = own.get_index(at) {
            at += 1;
            for &callee in &self.callees[k] {
                let set = if all[callee].is_copied { &mut own } else { &mut declared };
                set.insert(callee);
            }
        }
        let mut text = String::new();
        self.unit.write_head(&mut text);
        declared.iter().filter(|&k| !own.contains(k)).for_each(|&k| all[k].declare(&mut text));
        for &k in &own {
            let is_seen = shared && !all[k].is_copied;
            all[k].define(&mut text, if is_seen { all[k].seen_by_all() } else { all[k].linkage });
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, callees: &[&str]) -> Function {
        let (params, about) = ("i32 %r0".to_string(), "nounwind".to_string());
        let callees = callees.iter().map(|callee| (callee.to_string(), 1)).collect();
        let body = "  ret i32 %r0\n".to_string();
        let is_copied = name.starts_with("m_");
        let (name, result) = (name.to_string(), "fastcc i32".to_string());
        Function { name, result, params, about, body, callees, is_copied, ..Function::default() }
    }

    fn entry(name: &str, callees: &[&str]) -> Function {
        Function {
            callees: function(name, callees).callees,
            body: "  ret void\n".to_string(),
            ..Function::external(name, "ptr %ctx", "")
        }
    }

    fn unit(more: bool) -> Unit {
        let mut unit = Unit::default();
        unit.global("rt_zero", "external global i8".to_string());
        unit.declared.insert("rt_fail".to_string(), ("void".to_string(), "ptr)".to_string()));
        unit.functions = vec![
            function("f0", &["m_half"]),
            function("f1", &["f0"]),
            entry("entry0", &["f1"]),
            function("m_half", &[]),
        ];
        if more {
            unit.functions.extend([entry("entry1", &["f2"]), function("f2", &["m_half"])]);
        }
        unit
    }

    #[test]
    fn parts_declare_what_they_call() {
        let parts = Graph::new(&unit(false)).parts_of(1);
        assert_eq!(parts.len(), 3);
        for part in &parts {
            assert!(part.starts_with("@rt_zero = external global i8\ndeclare void @rt_fail(ptr)\n"));
        }
        assert!(parts[0].contains("define hidden fastcc i32 @f0(i32 %r0) nounwind {"));
        assert!(parts[0].contains("define internal fastcc i32 @m_half"));
        assert!(parts[1].contains("declare hidden fastcc i32 @f0(i32 %r0) nounwind\n"));
        assert!(!parts[1].contains("m_half"));
        assert!(parts[2].contains("declare hidden fastcc i32 @f1(i32 %r0) nounwind\n"));
        assert!(parts[2].contains("define void @entry0(ptr %ctx)"));
    }

    #[test]
    fn what_does_not_hang_together_goes_apart() {
        let more = unit(true);
        let parts = Graph::new(&more).apart(4);
        assert_eq!(parts.len(), 2);
        assert!(
            parts[0].contains("define void @entry0") && parts[0].contains("define internal fastcc i32 @f0")
        );
        assert!(
            parts[1].contains("define void @entry1") && parts[1].contains("define internal fastcc i32 @f2")
        );
        for part in &parts {
            assert!(part.starts_with("@rt_zero") && part.contains("define internal fastcc i32 @m_half"));
        }
        assert!(!parts[0].contains("f2(") && !parts[1].contains("f0("));
        assert_eq!(Graph::new(&unit(false)).apart(4).len(), 1);
        assert_eq!(Graph::new(&more).apart(1).len(), 1);
    }

    #[test]
    fn a_part_has_what_fits() {
        let parts = Graph::new(&unit(false)).parts_of(1 << 20);
        assert_eq!(parts.len(), 1);
        assert!(!parts[0].contains("declare hidden"));
    }
}
