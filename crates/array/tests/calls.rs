//! Calls functions on arrays of all layouts: values, derivatives of several orders, and refused arguments.

use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use pullback_array::{Argument, Array, Error, Foreign, Function, Options, Program, Scalar, Step, extent};

/// An array over numbers that outlive its use; strides and `first` count numbers.
fn of<T>(numbers: &mut [T], kind: Scalar, first: usize, shape: &[usize], strides: &[isize]) -> Array {
    let strides: Vec<isize> = strides.iter().map(|s| s * size_of::<T>() as isize).collect();
    let (before, after) = extent(kind, shape, &strides);
    let (start, end) = (first * size_of::<T>() - before, first * size_of::<T>() + after);
    assert!(end <= size_of_val(numbers));
    // SAFETY: The range lies within `numbers`, as asserted above. The numbers outlive the calls of the tests,
    // which access them from one thread only.
    let memory = unsafe { Foreign::new(NonNull::from(&mut numbers[0]).cast().add(start), end - start) };
    Array::new(memory, kind, shape, &strides)
}

fn view(numbers: &mut [f32], first: usize, shape: &[usize], strides: &[isize]) -> Array {
    of(numbers, Scalar::F32, first, shape, strides)
}

/// A dense array.
fn dense(numbers: &mut [f32], shape: &[usize]) -> Array {
    let strides: Vec<isize> =
        (0..shape.len()).map(|d| shape[d + 1..].iter().product::<usize>() as isize).collect();
    view(numbers, 0, shape, &strides)
}

fn program(text: &str) -> Arc<Program> {
    Program::from_text("test.slang", text, Path::new("."), Options::default()).expect("it is read")
}

fn function(text: &str) -> Function {
    program(text).function("f").unwrap_or_else(|e| panic!("{e}"))
}

const PRODUCT: &str = "[Differentiable] float f(float x, float y) { return x * x * y; }";

#[test]
fn a_call_is_mapped_over_leading_dimensions() {
    let f = function(PRODUCT);
    let (mut x, mut y, mut out) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [10.0, 100.0, 1000.0], [0.0; 6]);
    let inputs = [dense(&mut x, &[2, 3]), dense(&mut y, &[3])];
    let shape = f.shape(inputs.iter()).expect("they fit");
    assert_eq!(shape, [2, 3]);
    f.call(&shape, &inputs, &[dense(&mut out, &shape)], &[], None).expect("it runs");
    assert_eq!(out, [10.0, 400.0, 9000.0, 160.0, 2500.0, 36000.0]);
}

#[test]
fn strides_may_be_any() {
    let f = function(PRODUCT);
    // x: columns of a matrix of two rows, backwards; y: every second number; out: with gaps.
    let mut x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let mut y = [1.0, 0.0, 10.0, 0.0, 100.0];
    let mut out = [0.0; 12];
    let inputs = [view(&mut x, 5, &[3, 2], &[-1, -3]), view(&mut y, 0, &[3, 1], &[2, 7])];
    let output = view(&mut out, 0, &[3, 2], &[4, 2]);
    f.call(&[3, 2], &inputs, &[output], &[], None).expect("it runs");
    assert_eq!(out, [36.0, 0.0, 9.0, 0.0, 250.0, 0.0, 40.0, 0.0, 1600.0, 0.0, 100.0, 0.0]);
}

#[test]
fn gradients_of_what_is_broadcast_are_added() {
    let f = function(PRODUCT).derive(&[Step::ValueAndVjp]).expect("it has a derivative");
    let names: Vec<&str> = f.inputs.iter().map(|l| &l.path[..]).collect();
    assert_eq!(names, ["x", "y", ""]);
    let (mut x, mut y, mut one) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [10.0, 100.0, 1000.0], [1.0]);
    let (mut out, mut dx, mut dy) = ([0.0; 6], [0.0; 6], [0.0; 3]);
    let inputs = [dense(&mut x, &[2, 3]), dense(&mut y, &[3]), dense(&mut one, &[])];
    let outputs = [dense(&mut out, &[2, 3]), dense(&mut dx, &[2, 3]), dense(&mut dy, &[3])];
    f.call(&[2, 3], &inputs, &outputs, &[], None).expect("it runs");
    assert_eq!(out, [10.0, 400.0, 9000.0, 160.0, 2500.0, 36000.0]);
    assert_eq!(dx, [20.0, 400.0, 6000.0, 80.0, 1000.0, 12000.0]);
    assert_eq!(dy, [17.0, 29.0, 45.0]);
}

#[test]
fn calls_do_not_mix_up_how_arrays_lie() {
    let f = function(PRODUCT);
    // Repeatedly and on several threads, use more layouts than are kept ready: they differ in lengths,
    // strides and the position of the first number.
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..3 {
                    for n in 1..12usize {
                        let mut x: Vec<f32> = (0..3 * n).map(|k| k as f32).collect();
                        let (mut y, mut out) = ([2.0], vec![-1.0; n]);
                        let (step, first) = [(1, 0), (3, 0), (-2, 2 * n - 2), (0, n)][n % 4];
                        let inputs = [view(&mut x, first, &[n], &[step]), dense(&mut y, &[])];
                        f.call(&[n], &inputs, &[dense(&mut out, &[n])], &[], None).expect("it runs");
                        for (k, found) in out.iter().enumerate() {
                            let x = (first as isize + k as isize * step) as f32;
                            assert_eq!(*found, 2.0 * x * x, "{k} of {n} by {step}");
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn steps_follow_each_other_to_any_order() {
    let f = function("[Differentiable] float f(float x, float y) { return x * x * x * y; }");
    let only = || Step::Only(vec![true]);
    let (mut at, mut one) = ([2.0, 5.0], [1.0]);
    let (x, y) = (view(&mut at, 0, &[], &[]), view(&mut at, 1, &[], &[]));
    let one = dense(&mut one, &[]);
    // The function 6 x y, differentiated by x alone, with reverse over reverse and forward over reverse.
    let first = f.derive(&[only(), Step::Vjp]).expect("a gradient");
    assert_eq!(first.outputs.len(), 1);
    for (step, n) in [(Step::Vjp, 2), (Step::Jvp, 2)] {
        let second = first.derive(&[only(), step.clone()]).expect("a second derivative");
        let mut out = [0.0; 2];
        let outputs: Vec<Array> = (0..second.outputs.len()).map(|k| view(&mut out, k, &[], &[])).collect();
        let inputs = [x.clone(), y.clone(), one.clone(), one.clone()];
        second.call(&[], &inputs, &outputs, &[], None).expect("it runs");
        assert!(outputs.len() <= n && out[outputs.len() - 1] == 60.0, "{step:?}: {out:?}");
    }
}

#[test]
fn what_a_step_leaves_out_may_have_derivatives_later() {
    let f = function("[Differentiable] float f(float x, float y) { return x * x * y + 1 / y; }");
    let (mut at, mut numbers) = ([3.0, 0.0], [1.0]);
    let (x, y) = (view(&mut at, 0, &[], &[]), view(&mut at, 1, &[], &[]));
    let one = dense(&mut numbers, &[]);
    // By x, then by y: the derivative is 2 x, not the NaN that 0 * inf would yield.
    for first in [Step::JvpBy(vec![true, false]), Step::VjpBy(vec![true, false])] {
        for second in [Step::JvpBy(vec![false, true]), Step::VjpBy(vec![false, true])] {
            let derived = f.derive(&[first.clone(), second.clone()]).expect("a second derivative");
            assert_eq!((derived.inputs.len(), derived.outputs.len()), (4, 1));
            let mut out = [0.0];
            let output = dense(&mut out, &[]);
            let inputs = [x.clone(), y.clone(), one.clone(), one.clone()];
            derived.call(&[], &inputs, &[output], &[], None).expect("it runs");
            assert_eq!(out, [6.0], "{first:?} {second:?}");
        }
    }
}

#[test]
fn a_fingerprint_says_what_a_function_does() {
    let text = "[Differentiable] float f(float x, float y) { return x * y; }";
    let f = function(text);
    assert_eq!(f.fingerprint(), function(text).fingerprint());
    let gradient = |chosen: &[bool]| f.derive(&[Step::Only(chosen.to_vec()), Step::Vjp]).expect("a gradient");
    let others = [
        function("[Differentiable] float f(float x, float y) { return x + y; }"),
        gradient(&[true, false]),
        gradient(&[false, true]),
        gradient(&[true, true]),
    ];
    let all: std::collections::HashSet<String> =
        others.iter().chain([&f]).map(Function::fingerprint).collect();
    assert_eq!(all.len(), 5);
}

#[test]
fn structs_are_leaves_and_arrays_of_them_have_dimensions() {
    let f = function(
        "struct Light : IDifferentiable { float3 color; no_diff int steps; float at[2]; }
        [Differentiable] float f(Light lights[2]) {
            float sum = 0;
            for (int k = 0; k < 2; k++)
                sum += dot(lights[k].color, float3(1, 2, 3)) * lights[k].at[1] * lights[k].steps;
            return sum;
        }",
    );
    let leaves: Vec<_> = f.inputs.iter().map(|l| (&l.path[..], &l.dims[..], l.kind, l.diff)).collect();
    assert_eq!(leaves.len(), 3);
    assert_eq!(leaves[0].1, [2, 3]);
    assert_eq!((leaves[1].1, leaves[1].2, leaves[1].3), (&[2][..], Scalar::I32, false));
    assert_eq!(leaves[2].1, [2, 2]);
    // The colours are stored column by column.
    let (mut color, mut at, mut out) = ([1.0, 4.0, 2.0, 5.0, 3.0, 6.0], [0.0, 2.0, 0.0, 3.0], [0.0]);
    let mut steps = [1i32, 10];
    let steps = of(&mut steps, Scalar::I32, 0, &[2], &[1]);
    let inputs = [view(&mut color, 0, &[2, 3], &[1, 2]), steps, dense(&mut at, &[2, 2])];
    f.call(&[], &inputs, &[dense(&mut out, &[])], &[], None).expect("it runs");
    assert_eq!(out[0], 14.0 * 2.0 + 32.0 * 3.0 * 10.0);
}

#[test]
fn kinds_of_numbers_are_converted() {
    let f = function("double f(float x, bool which, uint16_t n) { return which ? double(x) * n : -1.0; }");
    let (mut x, mut which, mut n, mut out) = ([1.5f64, 2.5], [0u8, 7], [3u64], [0u16; 2]);
    let inputs = [
        of(&mut x, Scalar::F64, 0, &[2], &[1]),
        of(&mut which, Scalar::Bool, 0, &[2], &[1]),
        of(&mut n, Scalar::U64, 0, &[], &[]),
    ];
    f.call(&[2], &inputs, &[of(&mut out, Scalar::F16, 0, &[2], &[1])], &[], None).expect("it runs");
    assert_eq!(out, [0xbc00, 0x4780]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let f = function(PRODUCT);
    let (mut x, mut y) = ([0.0; 6], [0.0; 4]);
    let inputs = [dense(&mut x, &[2, 3]), dense(&mut y, &[4])];
    let Err(Error::Value(why)) = f.shape(inputs.iter()) else { panic!("3 is not 4") };
    assert!(why.contains("3 and 4"), "{why}");
    let same = [dense(&mut x, &[6]), dense(&mut y, &[])];
    let Err(Error::Value(why)) = f.call(&[6], &same, &same[..1], &[], None) else {
        panic!("x is an argument")
    };
    assert!(why.contains("shares memory"), "{why}");
    let Err(Error::Program(report)) = program("float f(float x) { return y; }").function("f") else {
        panic!("there is no y")
    };
    assert!(report.text.contains("test.slang:1:27") && report.json.contains("\"column\":27"), "{report:?}");
}

#[test]
fn a_call_without_places_does_nothing() {
    let f = function(PRODUCT);
    let (mut x, mut y) = ([0.0; 1], [0.0; 1]);
    let inputs = [view(&mut x, 0, &[0, 3], &[3, 1]), dense(&mut y, &[])];
    let shape = f.shape(inputs.iter()).expect("they fit");
    assert_eq!(shape, [0, 3]);
    let mut out = [7.0];
    f.call(&shape, &inputs, &[view(&mut out, 0, &[0, 3], &[3, 1])], &[], None).expect("it runs");
    assert_eq!(out, [7.0]);
}

#[test]
fn memory_is_bound_by_name() {
    let f = function(
        "RWStructuredBuffer<float> seen;
        [Differentiable] float f(StructuredBuffer<float> w, float x, no_diff int i, DiffTensorView t)
        {
            seen[i] = w[i];
            return w[i] * x * x + t[i];
        }",
    );
    assert_eq!(f.order, ["w", "x", "i", "t"]);
    let names: Vec<&str> = f.memory.iter().map(|place| &place.name[..]).collect();
    assert_eq!(names, ["w", "t", "t.grad", "seen"]);
    let (mut w, mut seen, mut t) = ([1.0, 10.0, 100.0], [0.0; 3], [0.5; 3]);
    let (mut x, mut i) = ([1.0, 2.0, 3.0], [2i32, 1, 0]);
    let arrays = [dense(&mut seen, &[3]), dense(&mut w, &[3]), dense(&mut t, &[3])];
    let place = |name: &str| f.place(name).expect("it is there");
    let arguments = arrays.iter().cloned().map(Argument::Array);
    let memory: Vec<_> = ["seen", "w", "t"].map(place).into_iter().zip(arguments).collect();
    let inputs = [dense(&mut x, &[3]), of(&mut i, Scalar::I32, 0, &[3], &[1])];
    let mut out = [0.0; 3];
    f.call(&[3], &inputs, &[dense(&mut out, &[3])], &memory, None).expect("it runs");
    assert_eq!((out, seen), ([100.5, 40.5, 9.5], [1.0, 10.0, 100.0]));
    let Err(Error::Kind(why)) = f.call(&[3], &inputs, &[dense(&mut out, &[3])], &memory[..2], None) else {
        panic!("`t` is missing")
    };
    assert!(why.contains("needs `t`"), "{why}");
    let same = [memory[0].clone(), (memory[1].0, memory[0].1.clone()), memory[2].clone()];
    let Err(Error::Value(why)) = f.call(&[3], &inputs, &[dense(&mut out, &[3])], &same, None) else {
        panic!("`seen` is written")
    };
    assert!(why.contains("`seen` and `w` share memory"), "{why}");
    // Gradients with respect to numbers, and into the gradient of the tensor.
    let g = f.derive(&[Step::Vjp]).expect("a derivative");
    let (mut one, mut dx, mut dt) = ([1.0], [0.0; 3], [0.0; 3]);
    let place = g.place("t.grad").expect("the gradient of `t`");
    let memory = [
        (g.place("seen").expect("it is there"), memory[0].1.clone()),
        (g.place("w").expect("it is there"), memory[1].1.clone()),
        (g.place("t").expect("it is there"), memory[2].1.clone()),
        (place, Argument::Array(dense(&mut dt, &[3]))),
    ];
    let inputs = [inputs[0].clone(), inputs[1].clone(), dense(&mut one, &[])];
    g.call(&[3], &inputs, &[dense(&mut dx, &[3])], &memory, None).expect("it runs");
    assert_eq!((dx, dt), ([200.0, 40.0, 6.0], [1.0; 3]));
}
