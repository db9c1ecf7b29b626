//! Modules, and the views from which derivatives are looked up: see [`crate::derivatives::precedence`].

/// A module of the program; 0 is the library, or no module in particular.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(pub u32);

/// The viewpoint from which a derivative is looked up. The default sees the derivatives of all modules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View {
    /// The module whose source contains the `fwd_diff` or `bwd_diff`.
    pub asks: ModuleId,
    /// The module whose source contains the call.
    pub calls: ModuleId,
}

impl View {
    /// The view of an operator and a call that are both in this module.
    pub fn of(module: ModuleId) -> View {
        View { asks: module, calls: module }
    }
}
