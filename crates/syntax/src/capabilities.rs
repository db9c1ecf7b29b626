//! The names of capabilities of devices, which `[require(…)]` and `__requireCapability(…)` ask for.
//!
//! Slang has several hundred and adds more with each release, but they are made of few words: what a name begins with
//! says which kind of thing it is. A name that begins with none of these words is a misspelling.

/// The words that names begin with, up to the first `_`.
const FIRST_WORDS: &str = "hlsl glsl spirv metal wgsl cuda cpp c llvm nvapi slangvm textualTarget \
    vertex fragment compute geometry hull domain raygen raygeneration intersection anyhit closesthit miss callable mesh \
    amplification node dispatch pixel tesscontrol tesseval task SPV GL GLSL SPIRV DX METAL sm vs ps gs hs ds cs ms as \
    lib dxil metallib optix any all stage target raytracing raytracingstages ser motionblur rayquery shaderclock \
    meshshading fragmentshaderinterlock atomic atomic64 atomicfloat atomicfloat2 fragmentshaderbarycentric \
    shadermemorycontrol bufferreference cooperative tensor vk mem descriptor subpass appendstructuredbuffer \
    byteaddressbuffer consumestructuredbuffer structuredbuffer implicit fragmentprocessing getattributeatvertex \
    memorybarrier texture image nonuniformqualifier printf abort texturefootprint texturefootprintclamp shader5 pack \
    shaderinvocationgroup subgroup helper quad breakpoint";

/// Returns true if a name may be that of a capability.
pub fn is_capability(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    let first = name.split('_').next().unwrap_or_default();
    let is_of_spirv = first.strip_prefix("spv").is_some_and(|rest| rest.starts_with(char::is_uppercase));
    is_of_spirv || FIRST_WORDS.split_whitespace().any(|word| word == first)
}

#[cfg(test)]
mod tests {
    use super::is_capability;

    #[test]
    fn names() {
        for name in
            ["cuda_spirv", "_sm_6_5", "spvInt64Atomics", "SPV_KHR_ray_query", "subgroup_vote", "ser_nv"]
        {
            assert!(is_capability(name), "{name}");
        }
        for name in ["cuad_spirv", "spvint64", "Anything", "", "subgroups"] {
            assert!(!is_capability(name), "{name}");
        }
    }
}
