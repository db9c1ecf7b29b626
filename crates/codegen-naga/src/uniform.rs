//! Determines whether control flow may depend on the contents of a uniform.
//!
//! Mesa's lavapipe inlines such numbers into the program before running it, and older versions of it may
//! crash in doing so. The analysis is conservative towards yes: a value depends on uniforms if any of its
//! operands does, in any call of its function; a local variable does if any value ever stored to it does.
//! Control dependence does not count, nor do the contents of storage. An element of a long array at a
//! non-constant index does not count either, because the driver does not know its location. All facts only
//! grow, so the analysis iterates over the module until nothing changes.

use naga::{AddressSpace, ArraySize, Block, Expression, Function, Handle, Module, Statement, TypeInner};
use rustc_hash::FxHashSet;

/// The maximum number of iterations of a loop that a driver unrolls, which makes the indices of elements
/// constant.
const LONGEST: u32 = 64;

/// The function that contains an expression; `None` for entry points, whose expressions no other function
/// sees. The number tells entry points apart.
type Owner = (Option<Handle<Function>>, usize);

#[derive(Default)]
struct Facts {
    /// Expressions that depend on uniforms.
    values: FxHashSet<(Owner, usize)>,
    /// Local variables that depend on uniforms.
    locals: FxHashSet<(Owner, usize)>,
    /// Parameters that depend on uniforms.
    params: FxHashSet<(Handle<Function>, usize)>,
    /// Functions whose results depend on uniforms.
    results: FxHashSet<Handle<Function>>,
    /// Some branch depends on a uniform.
    branches: bool,
    changed: bool,
}

/// Returns true if a branch, a `switch` or the end of a loop depends on a uniform.
pub fn decides_control(module: &Module) -> bool {
    let mut facts = Facts::default();
    loop {
        facts.changed = false;
        for (handle, function) in module.functions.iter() {
            facts.function(module, (Some(handle), 0), function);
        }
        for (k, entry) in module.entry_points.iter().enumerate() {
            facts.function(module, (None, k), &entry.function);
        }
        if facts.branches || !facts.changed {
            return facts.branches;
        }
    }
}

impl Facts {
    fn function(&mut self, module: &Module, owner: Owner, function: &Function) {
        for (handle, expression) in function.expressions.iter() {
            if self.depends(module, owner, function, expression) {
                self.changed |= self.values.insert((owner, handle.index()));
            }
        }
        self.block(owner, function, &function.body);
    }

    fn has(&self, owner: Owner, e: Handle<Expression>) -> bool {
        self.values.contains(&(owner, e.index()))
    }

    fn depends(&self, module: &Module, owner: Owner, function: &Function, expression: &Expression) -> bool {
        let has = |e: &Handle<Expression>| self.has(owner, *e);
        let maybe = |e: &Option<Handle<Expression>>| e.is_some_and(|e| self.has(owner, e));
        match expression {
            Expression::GlobalVariable(var) => module.global_variables[*var].space == AddressSpace::Uniform,
            Expression::LocalVariable(local) => self.locals.contains(&(owner, local.index())),
            Expression::FunctionArgument(k) => {
                owner.0.is_some_and(|f| self.params.contains(&(f, *k as usize)))
            }
            Expression::CallResult(f) => self.results.contains(f),
            Expression::Access { base, index } => {
                let is_one = matches!(function.expressions[*index], Expression::Literal(_));
                has(base) && (is_one || !is_large(module, function, *base))
            }
            Expression::Load { pointer: e }
            | Expression::AccessIndex { base: e, .. }
            | Expression::Splat { value: e, .. }
            | Expression::Swizzle { vector: e, .. }
            | Expression::Unary { expr: e, .. }
            | Expression::Relational { argument: e, .. }
            | Expression::As { expr: e, .. } => has(e),
            Expression::Compose { components, .. } => components.iter().any(has),
            Expression::Binary { left, right, .. } => has(left) || has(right),
            Expression::Select { condition, accept, reject } => has(condition) || has(accept) || has(reject),
            Expression::Math { arg, arg1, arg2, arg3, .. } => {
                has(arg) || maybe(arg1) || maybe(arg2) || maybe(arg3)
            }
            // Literals, lengths, and values from other threads.
            _ => false,
        }
    }

    fn block(&mut self, owner: Owner, function: &Function, block: &Block) {
        for statement in block.iter() {
            match statement {
                Statement::Block(inner) => self.block(owner, function, inner),
                Statement::If { condition, accept, reject } => {
                    self.branches |= self.has(owner, *condition);
                    self.block(owner, function, accept);
                    self.block(owner, function, reject);
                }
                Statement::Switch { selector, cases } => {
                    self.branches |= self.has(owner, *selector);
                    cases.iter().for_each(|case| self.block(owner, function, &case.body));
                }
                Statement::Loop { body, continuing, break_if } => {
                    self.branches |= break_if.is_some_and(|e| self.has(owner, e));
                    self.block(owner, function, body);
                    self.block(owner, function, continuing);
                }
                Statement::Store { pointer, value } if self.has(owner, *value) => {
                    if let Some(local) = local_of(function, *pointer) {
                        self.changed |= self.locals.insert((owner, local));
                    }
                }
                Statement::Call { function: callee, arguments, .. } => {
                    for (k, &argument) in arguments.iter().enumerate() {
                        if self.has(owner, argument) {
                            self.changed |= self.params.insert((*callee, k));
                        }
                    }
                }
                Statement::Return { value: Some(value) } if self.has(owner, *value) => {
                    if let Some(f) = owner.0 {
                        self.changed |= self.results.insert(f);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns true if a pointer refers to an array in a uniform with more elements than a driver unrolls
/// iterations of a loop.
fn is_large(module: &Module, function: &Function, base: Handle<Expression>) -> bool {
    let mut path = Vec::new();
    let mut at = base;
    let var = loop {
        match function.expressions[at] {
            Expression::GlobalVariable(var) => break var,
            Expression::AccessIndex { base, index } => {
                path.push(index as usize);
                at = base;
            }
            _ => return false,
        }
    };
    let mut ty = module.global_variables[var].ty;
    for &member in path.iter().rev() {
        match &module.types[ty].inner {
            TypeInner::Struct { members, .. } => ty = members[member].ty,
            _ => return false,
        }
    }
    matches!(module.types[ty].inner, TypeInner::Array { size: ArraySize::Constant(n), .. } if n.get() > LONGEST)
}

/// The local variable that a pointer points into.
fn local_of(function: &Function, mut pointer: Handle<Expression>) -> Option<usize> {
    loop {
        match function.expressions[pointer] {
            Expression::LocalVariable(local) => return Some(local.index()),
            Expression::Access { base, .. } | Expression::AccessIndex { base, .. } => pointer = base,
            _ => return None,
        }
    }
}
