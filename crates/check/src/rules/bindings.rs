//! Rules about bindings: `register(…)`, and `[[vk::binding(…)]]` of entry points' parameters.

use rustc_hash::FxHashMap;
use syntax::ast::DeclKind;
use syntax::{DeclId, Diagnostic, Span, Symbol};

use crate::program::Program;
use crate::signature::Subst;
use crate::types::{BufferKind, TyKind};

/// A register: its class, its space, and its number.
type Place = (u8, u32, u32);

impl Program {
    /// Checks the registers that the variables of a file are bound to.
    pub(crate) fn check_registers(&mut self, file: usize) {
        let mut taken: FxHashMap<Place, DeclId> = FxHashMap::default();
        for decl in self.units_of(file) {
            let Some(registers) = self.ast.registers.get(&decl).cloned() else { continue };
            for register in registers {
                let Some((class, space, first)) = self.register_of(&register.words) else { continue };
                let n = self.registers_of(decl);
                let overlap = (first..first.saturating_add(n))
                    .find_map(|number| taken.get(&(class, space, number)).copied());
                for number in first..first.saturating_add(n) {
                    taken.entry((class, space, number)).or_insert(decl);
                }
                // Bindings of Vulkan tell apart what registers of Direct3D do not.
                let is_vulkan = |p: &Program, decl: DeclId| p.attribute(decl, "vk::binding").is_some();
                if let Some(other) =
                    overlap.filter(|&other| !(is_vulkan(self, decl) && is_vulkan(self, other)))
                {
                    self.report_overlap(decl, other);
                }
            }
        }
    }

    fn report_overlap(&mut self, decl: DeclId, other: DeclId) {
        let allows = |p: &Program, decl: DeclId| {
            p.attribute(decl, "allow")
                .is_some_and(|a| p.text_argument(a).as_deref() == Some("overlapping-bindings"))
        };
        if allows(self, decl) && allows(self, other) {
            return;
        }
        let (name, other_name) = (self.ast.decl_name(decl), self.ast.decl_name(other));
        let message = format!("'{name}' is bound to a register that '{other_name}' has");
        let warning = Diagnostic::warning("E0709", self.name_span(decl), message);
        let warning = warning.note(self.name_span(other), "bound here");
        self.report(warning.help("if that is meant, mark both `[allow(\"overlapping-bindings\")]`"));
    }

    /// The number of registers that a variable takes.
    fn registers_of(&mut self, decl: DeclId) -> u32 {
        if !matches!(self.ast.decls[decl].kind, DeclKind::Var { .. }) {
            return 1;
        }
        let ty = self.decl_type(decl);
        match &self.types[ty] {
            TyKind::Array(_, Some(n)) => {
                let n = self.val_int(n, &Subst::default()).unwrap_or(1);
                u32::try_from(n).unwrap_or(1).clamp(1, 256)
            }
            _ => 1,
        }
    }

    /// Reads the words of `register(t0, space1)`, and reports those that are wrong. Constants (`c0`), which
    /// are parts of a buffer, have none.
    fn register_of(&mut self, words: &[(Symbol, Span)]) -> Option<Place> {
        let &(word, span) = words.first()?;
        let text = self.ast.name(word).to_string();
        let class = text.bytes().next()?.to_ascii_lowercase();
        let number = text.get(1..)?;
        if !matches!(class, b'b' | b't' | b'u' | b's') {
            return None;
        }
        if number.is_empty() {
            let message = format!("`{text}` needs the number of a register");
            self.report(Diagnostic::error("E39008", span, message).help(format!("write `{text}0`")));
            return None;
        }
        let number: u32 = number.parse().ok()?;
        let Some(&(word, span)) = words.get(1) else { return Some((class, 0, number)) };
        let space = self.ast.name(word).to_string();
        let Some(digits) = space.strip_prefix("space") else {
            let message = format!("expected a space after the register, found `{space}`");
            self.report(Diagnostic::error("E39009", span, message).help("write `space0`"));
            return None;
        };
        if digits.is_empty() {
            let error = Diagnostic::error("E39010", span, "`space` needs a number");
            self.report(error.help("write `space0`"));
            return None;
        }
        Some((class, digits.parse().ok()?, number))
    }

    /// Checks the bindings of an entry point's parameters and of a parameter block.
    pub(crate) fn check_vulkan_bindings(&mut self, decl: DeclId) {
        if let DeclKind::Var { .. } = self.ast.decls[decl].kind {
            return self.check_whole_set(decl);
        }
        let marks = ["shader", "numthreads"];
        if !matches!(self.ast.decls[decl].kind, DeclKind::Func { .. })
            || !marks.iter().any(|mark| self.attribute(decl, mark).is_some())
        {
            return;
        }
        for param in self.params_of(decl) {
            if self.attribute(param, "vk::binding").is_none() {
                continue;
            }
            self.check_whole_set(param);
        }
    }

    /// Reports a parameter block, which takes a whole descriptor set, at a binding within a set.
    fn check_whole_set(&mut self, decl: DeclId) {
        let Some(attribute) = self.attribute(decl, "vk::binding").cloned() else { return };
        let ty = self.decl_type(decl);
        if !matches!(self.types[ty], TyKind::Buffer(BufferKind::ParameterBlock, _)) {
            return;
        }
        if let Some(binding @ 1..) = self.integer_argument(&attribute, 0) {
            let name = self.ast.decl_name(decl);
            let message =
                format!("'{name}' takes a whole descriptor set, so its binding is 0, not {binding}");
            let help = "write `[[vk::binding(0, set)]]`";
            self.report(Diagnostic::error("E39015", attribute.span, message).help(help));
        }
    }
}
