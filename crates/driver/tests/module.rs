//! Writes of a host program take effect, or fail with an error that gives the reason.

use pullback_driver::launch::Execution;
use pullback_driver::module::Module;
use pullback_driver::session::{FileOptions, Session};

const PROGRAM: &str = "
Texture2D<float4> colours;
Texture2D<float> heights;
RWTexture2D<float2> written;
SamplerState linear;
RWStructuredBuffer<float> o;
[numthreads(1, 1, 1)] void k()
{
    uint w, h;
    colours.GetDimensions(w, h);
    o[0] = w;
    o[1] = h;
    o[2] = colours[uint2(1, 0)].y;
    o[3] = colours[uint2(1, 0)].w;
    o[4] = heights.SampleLevel(linear, float2(0.5, 0.5), 0);
    written[uint2(0, 1)] = float2(5, 6);
}
[CUDAKernel] void twice(TensorView<float> x, TensorView<float> y)
{
    for (uint i = 0; i < x.size(0); i++) y[i, 0] = 2 * x[i];
}
";

fn module() -> Module {
    let mut session = Session::new(FileOptions::default());
    Module::from_text(&mut session, "textures.slang", PROGRAM, &Execution::default()).expect("compiles")
}

#[test]
fn a_texture_needs_its_shape_and_is_then_there() {
    let mut module = module();
    let kernel = module.kernel("k").expect("a kernel");
    let why = module.write("colours", &[0.5f32; 8]).expect_err("no shape yet").to_string();
    assert!(why.contains("`colours`") && why.contains("write_shaped"), "{why}");
    assert!(module.allocate("written", 4).is_err());
    let missing = module.dispatch(kernel, [1, 1, 1]).expect_err("nothing is bound").to_string();
    assert!(missing.contains("has no content yet"), "{missing}");

    // Three channels are given, so alpha is one.
    let colours: Vec<f32> = (0..2 * 3).map(|k| k as f32).collect();
    module.write_shaped("colours", &[1, 2, 3], &colours).expect("a texture");
    module.write_shaped("heights", &[2, 2], &[1.0f64, 2.0, 3.0, 6.0]).expect("doubles become floats");
    module.write_shaped("written", &[2, 1, 2], &[0.0f32; 4]).expect("a texture");
    module.write("x", &[1.0f32]).expect_err("a tensor needs a shape, too");
    module.write_shaped("x", &[3], &[1.0f32, 2.0, 3.0]).expect("a tensor");
    module.write_shaped("y", &[3, 1], &[0.0f32; 3]).expect("a tensor");
    module.allocate("o", 5).expect("a buffer");
    module.dispatch(kernel, [1, 1, 1]).expect("runs");
    assert_eq!(module.read::<f32>("o").expect("floats"), [2.0, 1.0, 4.0, 1.0, 3.0]);
    assert_eq!(module.read::<f32>("written").expect("floats"), [0.0, 0.0, 5.0, 6.0]);
    let twice = module.kernel("twice").expect("a kernel");
    module.dispatch(twice, [1, 1, 1]).expect("runs");
    assert_eq!(module.read::<f32>("y").expect("floats"), [2.0, 4.0, 6.0]);

    // The shape is known from here on.
    module.write("heights", &[4.0f32; 4]).expect("as large");
    assert!(module.write("heights", &[4.0f32; 6]).is_err());
    module.dispatch(kernel, [1, 1, 1]).expect("runs");
    assert_eq!(module.read::<f32>("o").expect("floats")[4], 4.0);
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let mut module = module();
    for (shape, n) in [(&[2, 2][..], 3), (&[2], 2), (&[1, 1, 1, 1], 1), (&[0, 2], 0), (&[usize::MAX, 2], 2)] {
        assert!(module.write_shaped("heights", shape, &vec![1.0f32; n]).is_err(), "{shape:?}");
    }
    assert!(module.write_shaped("o", &[5], &[0.0f32; 5]).is_err(), "a buffer has no shape");
    assert!(module.write_shaped("nothing", &[1], &[0.0f32]).is_err());
    assert!(module.allocate("o", usize::MAX).is_err() && module.allocate("o", 1 << 58).is_err());
}

#[test]
fn pointers_in_memory_have_names() {
    let text = "
struct Layer { float* weights; float* sums; }
uniform Layer layer;
[numthreads(2, 1, 1)] void k(uint i : SV_DispatchThreadID) { layer.sums[i] += layer.weights[i]; }
";
    let mut session = Session::new(FileOptions::default());
    let mut module =
        Module::from_text(&mut session, "pointers.slang", text, &Execution::default()).expect("compiles");
    let kernel = module.kernel("k").expect("a kernel");
    let why = module.dispatch(kernel, [1, 1, 1]).expect_err("nothing is there").to_string();
    assert!(why.contains("`layer.weights` has no content yet"), "{why}");
    module.write("layer.weights", &[1.0f32, 2.0]).expect("numbers");
    module.allocate("layer.sums", 2).expect("numbers");
    for _ in 0..3 {
        module.dispatch(kernel, [1, 1, 1]).expect("runs");
    }
    assert_eq!(module.read::<f32>("layer.sums").expect("numbers"), [3.0, 6.0]);
    module.write("layer.weights", &[5.0f32, 5.0, 5.0]).expect("more numbers");
    module.dispatch(kernel, [1, 1, 1]).expect("runs");
    assert_eq!(module.read::<f32>("layer.sums").expect("numbers"), [8.0, 11.0]);
}
