//! Builds a naga function: appends expressions in the order of their evaluation, and opens and closes blocks.
//!
//! naga keeps expressions in an arena, and `Emit` statements say when they are evaluated. Here every
//! expression is evaluated where it is created: a range of expressions is open after each statement and is
//! emitted before the next one.

use naga::{
    AtomicFunction, BinaryOperator, Block, Expression, Function, FunctionArgument, FunctionResult, Handle,
    Literal, LocalVariable, MathFunction, ScalarKind, Span, Statement, Type, UnaryOperator, VectorSize,
};
use rustc_hash::FxHashMap;

use crate::words::divisor;

/// An expression of the function.
pub(crate) type Expr = Handle<Expression>;

/// An expression deeper than this is given a name, to keep the lines of the emitted text short.
const DEEP: u8 = 8;

/// A function under construction.
pub(crate) struct Code {
    func: Function,
    block: Block,
    /// The first expression that no `Emit` covers yet.
    open: usize,
    literals: FxHashMap<(u8, u64), Expr>,
    zeros: FxHashMap<Handle<Type>, Expr>,
    depth: Vec<u8>,
    /// Pointers to variables that are not local variables of the function, with the variables' types.
    elsewhere: FxHashMap<Expr, Handle<Type>>,
}

impl Code {
    /// An empty function.
    pub(crate) fn new(name: &str) -> Code {
        Code {
            func: Function { name: Some(name.to_string()), ..Function::default() },
            block: Block::new(),
            open: 0,
            literals: FxHashMap::default(),
            zeros: FxHashMap::default(),
            depth: Vec::new(),
            elsewhere: FxHashMap::default(),
        }
    }

    /// Returns the finished function, with the statements written so far as its body.
    pub(crate) fn finish(mut self) -> Function {
        self.flush();
        self.func.body = self.block;
        self.func
    }

    /// Adds a parameter.
    pub(crate) fn param(&mut self, name: &str, ty: Handle<Type>, builtin: Option<naga::BuiltIn>) -> Expr {
        self.argument(name, ty, builtin.map(naga::Binding::BuiltIn))
    }

    /// Adds an input of an entry point.
    pub(crate) fn input(&mut self, name: &str, ty: Handle<Type>, binding: naga::Binding) -> Expr {
        self.argument(name, ty, Some(binding))
    }

    fn argument(&mut self, name: &str, ty: Handle<Type>, binding: Option<naga::Binding>) -> Expr {
        self.func.arguments.push(FunctionArgument { name: Some(name.to_string()), ty, binding });
        self.expr(Expression::FunctionArgument(self.func.arguments.len() as u32 - 1))
    }

    /// Sets the type of the function's result.
    pub(crate) fn result(&mut self, ty: Handle<Type>) {
        self.returns(FunctionResult { ty, binding: None });
    }

    /// Sets the function's result.
    pub(crate) fn returns(&mut self, result: FunctionResult) {
        self.func.result = Some(result);
    }

    /// Adds a variable and returns the pointer to it.
    pub(crate) fn local(&mut self, name: &str, ty: Handle<Type>) -> Expr {
        let local = LocalVariable { name: Some(name.to_string()), ty, init: None };
        let local = self.func.local_variables.append(local, Span::default());
        self.expr(Expression::LocalVariable(local))
    }

    // ---- expressions

    /// Adds an expression, which is evaluated at this point.
    pub(crate) fn expr(&mut self, expr: Expression) -> Expr {
        if expr.needs_pre_emit() || is_result(&expr) {
            self.flush();
            let handle = self.add(expr, 0);
            self.open = self.func.expressions.len();
            return handle;
        }
        let depth = 1 + self.children(&expr);
        let is_load = matches!(expr, Expression::Load { .. });
        let is_access = matches!(expr, Expression::Access { .. } | Expression::AccessIndex { .. });
        let handle = self.add(expr, if is_load { 0 } else { depth });
        if depth > DEEP && !is_access {
            self.name(handle, "temp");
        }
        handle
    }

    fn add(&mut self, expr: Expression, depth: u8) -> Expr {
        let handle = self.func.expressions.append(expr, Span::default());
        self.depth.push(depth);
        handle
    }

    /// The depth of the deepest operand.
    fn children(&self, expr: &Expression) -> u8 {
        let d = |e: Expr| self.depth[e.index()];
        match expr {
            Expression::Compose { components, .. } => components.iter().map(|&e| d(e)).max().unwrap_or(0),
            Expression::Access { base, index } => d(*base).max(d(*index)),
            Expression::AccessIndex { base, .. } => d(*base),
            Expression::Splat { value, .. } => d(*value),
            Expression::Unary { expr, .. } | Expression::As { expr, .. } => d(*expr),
            Expression::Binary { left, right, .. } => d(*left).max(d(*right)),
            Expression::Select { condition, accept, reject } => d(*condition).max(d(*accept)).max(d(*reject)),
            Expression::Math { arg, arg1, arg2, .. } => d(*arg).max(arg1.map_or(0, d)).max(arg2.map_or(0, d)),
            _ => 0,
        }
    }

    /// Names a value, so that it becomes a `let` in the text. Expressions that are not computed, such as
    /// arguments and variables, keep their names.
    pub(crate) fn name(&mut self, expr: Expr, name: &str) {
        let data = &self.func.expressions[expr];
        if !data.needs_pre_emit() && !is_result(data) && !self.func.named_expressions.contains_key(&expr) {
            self.func.named_expressions.insert(expr, name.to_string());
            self.depth[expr.index()] = 0;
        }
    }

    /// A literal.
    pub(crate) fn literal(&mut self, literal: Literal) -> Expr {
        let key = match literal {
            Literal::F64(x) => (0, x.to_bits()),
            Literal::F32(x) => (1, x.to_bits() as u64),
            Literal::F16(x) => (2, x.to_bits() as u64),
            Literal::U32(x) => (3, x as u64),
            Literal::I32(x) => (4, x as u64),
            Literal::U64(x) => (5, x),
            Literal::I64(x) => (6, x as u64),
            Literal::Bool(x) => (7, x as u64),
            Literal::U16(x) => (8, x as u64),
            Literal::I16(x) => (9, x as u64),
            Literal::AbstractInt(x) => (10, x as u64),
            Literal::AbstractFloat(x) => (11, x.to_bits()),
        };
        if let Some(&found) = self.literals.get(&key) {
            return found;
        }
        let made = self.expr(Expression::Literal(literal));
        self.literals.insert(key, made);
        made
    }

    /// A literal unsigned integer.
    pub(crate) fn u32(&mut self, n: u32) -> Expr {
        self.literal(Literal::U32(n))
    }

    /// The zero value of a type.
    pub(crate) fn zero(&mut self, ty: Handle<Type>) -> Expr {
        if let Some(&found) = self.zeros.get(&ty) {
            return found;
        }
        let made = self.expr(Expression::ZeroValue(ty));
        self.zeros.insert(ty, made);
        made
    }

    /// The constant that an expression is, if it is made of literals, as an expression of the module.
    pub(crate) fn constant(
        &self,
        expr: Expr,
        all: &mut naga::Arena<Expression>,
    ) -> Option<Handle<Expression>> {
        let made = match &self.func.expressions[expr] {
            whole @ (Expression::Literal(_) | Expression::ZeroValue(_)) => whole.clone(),
            &Expression::Splat { size, value } => {
                Expression::Splat { size, value: self.constant(value, all)? }
            }
            Expression::Compose { ty, components } => {
                let components = components.iter().map(|&part| self.constant(part, all));
                Expression::Compose { ty: *ty, components: components.collect::<Option<_>>()? }
            }
            _ => return None,
        };
        Some(all.append(made, Span::default()))
    }

    /// The literal that an expression is, if it is one.
    pub(crate) fn literal_of(&self, expr: Expr) -> Option<Literal> {
        match self.func.expressions[expr] {
            Expression::Literal(literal) => Some(literal),
            _ => None,
        }
    }

    /// A power of two, at most 4, that divides an unsigned number: its literals are all that is known, and of an
    /// expression that is too deep, in which one operand may occur any number of times, nothing.
    pub(crate) fn divisor(&self, expr: Expr) -> u32 {
        self.divisor_at(expr, DEEP)
    }

    fn divisor_at(&self, expr: Expr, depth: u8) -> u32 {
        let Some(depth) = depth.checked_sub(1) else { return 1 };
        match self.func.expressions[expr] {
            Expression::Literal(Literal::U32(n)) => divisor(n),
            Expression::Binary { op, left, right } => {
                let (a, b) = (self.divisor_at(left, depth), self.divisor_at(right, depth));
                match op {
                    BinaryOperator::Add | BinaryOperator::Subtract | BinaryOperator::InclusiveOr => a.min(b),
                    BinaryOperator::And => a.max(b),
                    BinaryOperator::Multiply => (a * b).min(4),
                    BinaryOperator::ShiftLeft => match self.literal_of(right) {
                        Some(Literal::U32(by)) => (a << by.min(2)).min(4),
                        _ => a,
                    },
                    _ => 1,
                }
            }
            Expression::Select { accept, reject, .. } => {
                self.divisor_at(accept, depth).min(self.divisor_at(reject, depth))
            }
            _ => 1,
        }
    }

    /// `left op right`
    pub(crate) fn binary(&mut self, op: BinaryOperator, left: Expr, right: Expr) -> Expr {
        if let (Some(Literal::U32(a)), Some(Literal::U32(b))) =
            (self.literal_of(left), self.literal_of(right))
        {
            match op {
                BinaryOperator::Equal => return self.literal(Literal::Bool(a == b)),
                BinaryOperator::NotEqual => return self.literal(Literal::Bool(a != b)),
                _ => {}
            }
        }
        self.expr(Expression::Binary { op, left, right })
    }

    /// `op expr`
    pub(crate) fn unary(&mut self, op: UnaryOperator, expr: Expr) -> Expr {
        if let (UnaryOperator::LogicalNot, Some(Literal::Bool(b))) = (op, self.literal_of(expr)) {
            return self.literal(Literal::Bool(!b));
        }
        self.expr(Expression::Unary { op, expr })
    }

    /// A math function of one to three operands.
    pub(crate) fn math(&mut self, fun: MathFunction, args: &[Expr]) -> Expr {
        let (arg, arg1, arg2) = (args[0], args.get(1).copied(), args.get(2).copied());
        self.expr(Expression::Math { fun, arg, arg1, arg2, arg3: None })
    }

    /// `condition ? accept : reject`
    pub(crate) fn select(&mut self, condition: Expr, accept: Expr, reject: Expr) -> Expr {
        if accept == reject {
            return accept;
        }
        self.expr(Expression::Select { condition, accept, reject })
    }

    /// Converts a number to another kind; without a width, reinterprets its bits.
    pub(crate) fn convert(&mut self, expr: Expr, kind: ScalarKind, width: Option<u8>) -> Expr {
        self.expr(Expression::As { expr, kind, convert: width })
    }

    /// A vector of `n` copies of a number; the number itself if `n` is 1.
    pub(crate) fn splat(&mut self, n: u32, value: Expr) -> Expr {
        match vector_size(n) {
            Some(size) => self.expr(Expression::Splat { size, value }),
            None => value,
        }
    }

    /// Component `index` of a vector, array or struct; of a pointer to one, the pointer to the component.
    pub(crate) fn part(&mut self, base: Expr, index: u32) -> Expr {
        // A component of a `Compose` is the operand that was passed for it.
        if let Expression::Compose { components, .. } = &self.func.expressions[base]
            && let Some(&found) = components.get(index as usize)
        {
            return found;
        }
        self.expr(Expression::AccessIndex { base, index })
    }

    /// The element at an index computed at run time; of a pointer, the pointer to the element.
    pub(crate) fn element(&mut self, base: Expr, index: Expr) -> Expr {
        match self.literal_of(index) {
            Some(Literal::U32(k)) => self.part(base, k),
            Some(Literal::I32(k)) if k >= 0 => self.part(base, k as u32),
            _ => self.expr(Expression::Access { base, index }),
        }
    }

    /// A composite value made of its components.
    pub(crate) fn compose(&mut self, ty: Handle<Type>, components: Vec<Expr>) -> Expr {
        self.expr(Expression::Compose { ty, components })
    }

    /// Loads the value at a pointer.
    pub(crate) fn load(&mut self, pointer: Expr) -> Expr {
        self.expr(Expression::Load { pointer })
    }

    /// Stores a value at a pointer, or loads the value there, if none is given.
    pub(crate) fn load_or_store(&mut self, pointer: Expr, value: Option<Expr>) -> Option<Expr> {
        let Some(value) = value else { return Some(self.load(pointer)) };
        self.store(pointer, value);
        None
    }

    // ---- statements

    fn flush(&mut self) {
        if self.func.expressions.len() > self.open {
            let range = self.func.expressions.range_from(self.open);
            self.block.push(Statement::Emit(range), Span::default());
            self.open = self.func.expressions.len();
        }
    }

    /// Adds a statement.
    pub(crate) fn push(&mut self, statement: Statement) {
        self.flush();
        self.block.push(statement, Span::default());
    }

    /// `*pointer = value`
    pub(crate) fn store(&mut self, pointer: Expr, value: Expr) {
        self.push(Statement::Store { pointer, value });
    }

    /// Calls a function and returns its result if it has one.
    pub(crate) fn call(
        &mut self,
        function: Handle<Function>,
        arguments: Vec<Expr>,
        gives: bool,
    ) -> Option<Expr> {
        if gives {
            return Some(self.value_of(function, &arguments));
        }
        self.run(function, arguments);
        None
    }

    /// Calls a function that has no result.
    pub(crate) fn run(&mut self, function: Handle<Function>, arguments: Vec<Expr>) {
        self.push(Statement::Call { function, arguments, result: None });
    }

    /// Calls a function that has a result.
    pub(crate) fn value_of(&mut self, function: Handle<Function>, arguments: &[Expr]) -> Expr {
        let result = self.expr(Expression::CallResult(function));
        self.push(Statement::Call { function, arguments: arguments.to_vec(), result: Some(result) });
        result
    }

    /// Returns from the function.
    pub(crate) fn ret(&mut self, value: Option<Expr>) {
        self.push(Statement::Return { value });
    }

    /// Opens a block and returns the enclosing one, which must be passed to [`Self::close`].
    pub(crate) fn enter(&mut self) -> Block {
        self.flush();
        std::mem::take(&mut self.block)
    }

    /// Closes the open block, returns it and continues in the enclosing one.
    pub(crate) fn close(&mut self, before: Block) -> Block {
        self.flush();
        std::mem::replace(&mut self.block, before)
    }

    /// `if condition { accept } else { reject }`
    pub(crate) fn if_else(&mut self, condition: Expr, accept: Block, reject: Block) {
        self.push(Statement::If { condition, accept, reject });
    }

    /// A block by itself.
    fn scoped(&mut self, body: impl FnOnce(&mut Code)) -> Block {
        let before = self.enter();
        body(self);
        self.close(before)
    }

    /// `if condition { body }`
    pub(crate) fn when(&mut self, condition: Expr, body: impl FnOnce(&mut Code)) {
        if let Some(Literal::Bool(false)) = self.literal_of(condition) {
            return;
        }
        let block = self.scoped(body);
        self.if_else(condition, block, Block::new());
    }

    /// `loop { body }`
    pub(crate) fn repeat(&mut self, body: impl FnOnce(&mut Code)) {
        let body = self.scoped(body);
        self.push(Statement::Loop { body, continuing: Block::new(), break_if: None });
    }

    /// Applies an atomic function; returns the old word, of type `ty`.
    pub(crate) fn atomic(
        &mut self,
        pointer: Expr,
        fun: AtomicFunction,
        value: Expr,
        ty: Handle<Type>,
    ) -> Expr {
        let result = self.expr(Expression::AtomicResult { ty, comparison: false });
        self.push(Statement::Atomic { pointer, fun, value, result: Some(result) });
        result
    }

    /// Exchanges an atomic word if it equals `compare`; returns the old word, and the condition that the exchange
    /// took place, which may also fail for no reason. `ty` is the type of both.
    pub(crate) fn exchange(
        &mut self,
        pointer: Expr,
        compare: Expr,
        value: Expr,
        ty: Handle<Type>,
    ) -> (Expr, Expr) {
        let result = self.expr(Expression::AtomicResult { ty, comparison: true });
        let fun = AtomicFunction::Exchange { compare: Some(compare) };
        self.push(Statement::Atomic { pointer, fun, value, result: Some(result) });
        (self.part(result, 0), self.part(result, 1))
    }

    /// Breaks out of the loop if `condition` holds.
    pub(crate) fn break_if(&mut self, condition: Expr) {
        self.when(condition, |c| c.push(Statement::Break));
    }

    /// The data of an expression.
    pub(crate) fn expression(&self, expr: Expr) -> &Expression {
        &self.func.expressions[expr]
    }

    /// The type of a variable, given the pointer to it.
    pub(crate) fn local_type(&self, place: Expr) -> Option<Handle<Type>> {
        match self.func.expressions[place] {
            Expression::LocalVariable(local) => Some(self.func.local_variables[local].ty),
            _ => self.elsewhere.get(&place).copied(),
        }
    }

    /// Records that an expression is the pointer to a variable of a type.
    pub(crate) fn is_variable(&mut self, place: Expr, ty: Handle<Type>) {
        self.elsewhere.insert(place, ty);
    }

    /// Appends the statements of a block.
    pub(crate) fn append(&mut self, block: Block) {
        self.flush();
        self.block.extend_block(block);
    }
}

/// Returns true if a statement gives the expression its value.
fn is_result(expr: &Expression) -> bool {
    matches!(
        expr,
        Expression::CallResult(_)
            | Expression::AtomicResult { .. }
            | Expression::SubgroupBallotResult
            | Expression::SubgroupOperationResult { .. }
    )
}

/// The naga vector size for a number of lanes.
pub(crate) fn vector_size(n: u32) -> Option<VectorSize> {
    match n {
        2 => Some(VectorSize::Bi),
        3 => Some(VectorSize::Tri),
        4 => Some(VectorSize::Quad),
        _ => None,
    }
}
