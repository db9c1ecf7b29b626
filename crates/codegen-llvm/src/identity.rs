//! Identifies the kind of machine without using LLVM.

/// The machine's model and features, as the processor reports them.
pub fn identity() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        #[allow(unused_unsafe, reason = "safe since some version of the library")]
        // SAFETY: every x86-64 processor has the instruction.
        let (model, more, yet_more, state) =
            unsafe { (__cpuid(1), __cpuid_count(7, 0), __cpuid_count(7, 1), __cpuid_count(13, 0)) };
        // `ebx` of the first leaf is left out, since it contains the number of the core.
        let words = [
            model.eax,
            model.ecx,
            model.edx,
            more.ebx,
            more.ecx,
            more.edx,
            yet_more.eax,
            yet_more.ebx,
            yet_more.edx,
            state.eax,
        ];
        words.iter().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(" ")
    }
    #[cfg(target_arch = "aarch64")]
    {
        use std::arch::is_aarch64_feature_detected as has;
        let all = [
            has!("fp16"),
            has!("sve"),
            has!("sve2"),
            has!("dotprod"),
            has!("bf16"),
            has!("i8mm"),
            has!("lse"),
            has!("rcpc"),
            has!("sha3"),
            has!("fhm"),
            has!("jsconv"),
            has!("fcma"),
        ];
        format!("aarch64 {} {all:?}", std::env::consts::OS)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::env::consts::ARCH.to_string()
}
