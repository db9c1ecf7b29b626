//! The attributes of the language, with their documentation, for completion and hover.

/// An attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeDoc {
    /// The name, without brackets.
    pub name: &'static str,
    /// The arguments, as they are inserted; empty if there are none.
    pub arguments: &'static str,
    /// The documentation of the attribute, as Markdown.
    pub text: &'static str,
}

const fn doc(name: &'static str, arguments: &'static str, text: &'static str) -> AttributeDoc {
    AttributeDoc { name, arguments, text }
}

/// The attributes that have a meaning.
pub const ATTRIBUTES: &[AttributeDoc] = &[
    doc(
        "Differentiable",
        "",
        "The function can be differentiated in both modes: `fwd_diff` and `bwd_diff` of it are functions.",
    ),
    doc("ForwardDifferentiable", "", "The function can be differentiated in forward mode only."),
    doc(
        "BackwardDifferentiable",
        "",
        "The function can be differentiated in both modes; the same as `[Differentiable]`.",
    ),
    doc(
        "Continuous",
        "",
        "The function has no jumps, or its own derivatives account for them, so `integrate` looks for no edges in it.",
    ),
    doc(
        "LastDerivative",
        "",
        "The function, a derivative of another one, cannot be differentiated in turn: asking for it is an error.",
    ),
    doc(
        "TreatAsDifferentiable",
        "",
        "The function may be called by differentiable ones; its derivative is zero.",
    ),
    doc(
        "ForwardDerivative",
        "(name)",
        "Names the function that computes the forward derivative of this one: it takes a `DifferentialPair<T>` for each differentiable `T`, and returns a pair.",
    ),
    doc(
        "BackwardDerivative",
        "(name)",
        "Names the function that computes the backward derivative of this one: it takes an `inout DifferentialPair<T>` for each differentiable `T`, and the differential of the result.",
    ),
    doc(
        "ImplicitDerivative",
        "(residual)",
        "Names the function that vanishes at this one's result: `residual(x, …)` takes that and the parameters, and returns as many numbers. The derivative of the result follows from it; the body is not differentiated. Needs `import implicit;`.",
    ),
    doc(
        "PrimalSubstitute",
        "(name)",
        "Names the function that derivative code calls, and differentiates, in place of this one.",
    ),
    doc(
        "ForwardDerivativeOf",
        "(name)",
        "This function is the forward derivative of the function named, which may be of another module.",
    ),
    doc(
        "BackwardDerivativeOf",
        "(name)",
        "This function is the backward derivative of the function named, which may be of another module.",
    ),
    doc(
        "PrimalSubstituteOf",
        "(name)",
        "Derivative code calls this function in place of the function named.",
    ),
    doc(
        "DerivativeMember",
        "(Differential.field)",
        "Names the field of the type's `Differential` that holds the derivative of this field.",
    ),
    doc("NoDiffThis", "", "The object of the method has no derivative."),
    doc(
        "PreferRecompute",
        "",
        "Reverse mode keeps only the operands of this function's calls, and runs the function again.",
    ),
    doc(
        "PreferCheckpoint",
        "",
        "Reverse mode recomputes nothing in this function except constants and counters.",
    ),
    doc(
        "Checkpoint",
        "(n)",
        "On a loop: reverse mode keeps the state after every `n` trips, and runs the trips in between again. Without a number, it keeps about the square root of the number of trips.",
    ),
    doc(
        "CheckpointStates",
        "(n)",
        "On a loop: reverse mode keeps at most `n` states of it at any time, and runs trips as often as that takes.",
    ),
    doc(
        "CheckpointBudget",
        "(bytes)",
        "Reverse mode keeps at most this number of bytes for a call of the function.",
    ),
    doc(
        "MaxIters",
        "(n)",
        "On a loop: it makes at most `n` trips. A loop that is reversed and makes more stops the run with an error.",
    ),
    doc(
        "ForceUnroll",
        "",
        "On a loop: its trips are written one after the other; their number has to be known.",
    ),
    doc("unroll", "", "On a loop: its trips may be written one after the other."),
    doc("ForceInline", "", "Calls of the function are replaced by its body."),
    doc(
        "FastMath",
        "",
        "In this function, sums and products may be computed in another order and with other roundings.",
    ),
    doc(
        "numthreads",
        "(64, 1, 1)",
        "The function is a kernel whose groups have this number of threads in x, y and z.",
    ),
    doc("shader", "(\"compute\")", "The function is an entry point of the stage named."),
    doc("mutating", "", "The method changes its object."),
    doc("nonmutating", "", "The setter does not change its object."),
    doc(
        "anyValueSize",
        "(16)",
        "On an interface: values of types that conform to it have at most this number of bytes.",
    ),
    doc("SpecializationConstant", "", "The constant may be given another value when the kernel is created."),
    doc("UnscopedEnum", "", "The cases of the enumeration are visible without its name."),
    doc("CUDAKernel", "", "The function is a kernel for a CUDA device."),
    doc("AutoPyBindCUDA", "", "The kernel can be called from Python by `pullback.slangtorch`."),
    doc("TorchEntryPoint", "", "The host function can be called from Python by `pullback.slangtorch`."),
];

/// The documentation of an attribute.
pub fn attribute(name: &str) -> Option<&'static AttributeDoc> {
    let in_any_case =
        |known: &str| matches!(known, "numthreads" | "shader") && known.eq_ignore_ascii_case(name);
    ATTRIBUTES.iter().find(|a| a.name == name || in_any_case(a.name))
}

impl AttributeDoc {
    /// The attribute with its arguments.
    pub fn usage(&self) -> String {
        format!("[{}{}]", self.name, self.arguments)
    }
}

/// Returns true if an attribute is being written at an offset: the word at the offset follows a `[` or `,` in a
/// bracket that begins a line, a statement or a declaration.
pub(crate) fn is_in_attribute(text: &str, offset: usize) -> bool {
    let Some(before) = text.get(..offset) else { return false };
    let before = before.trim_end_matches(|c: char| c == '_' || c.is_ascii_alphanumeric());
    let line = &before[before.rfind(['\n', ';', '{', '}']).map_or(0, |n| n + 1)..];
    // What stands before it on the line can only be other attributes.
    let mut rest = line.trim();
    loop {
        let Some(inner) = rest.strip_prefix('[') else { return false };
        match inner.find(']') {
            Some(end) => rest = inner[end + 1..].trim_start(),
            None => {
                let inner = inner.trim_start_matches('[').trim_end();
                let is_closed = inner.matches('(').count() == inner.matches(')').count();
                return is_closed && (inner.is_empty() || inner.ends_with(','));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_in_attribute;

    #[test]
    fn attributes_are_told_from_indices() {
        for text in ["[¦", "[Diff¦", "x;\n  [¦", "{ [MaxI¦", "[A] [B¦", "[A(1, 2), B¦", "[[¦"] {
            let at = text.find('¦').expect("a marker");
            assert!(is_in_attribute(&text.replace('¦', ""), at), "{text}");
        }
        for text in ["a[¦", "x = a[i¦", "[A] ¦", "[A(¦", "float f¦", "return b[¦", ""] {
            let at = text.find('¦').unwrap_or(0);
            assert!(!is_in_attribute(&text.replace('¦', ""), at), "{text}");
        }
    }
}
