//! Recognises names of Slang that only have a meaning in other pipelines of a GPU, so that diagnostics can
//! say so.

/// The GPU pipeline that a built-in name belongs to if no CPU supports it: ray tracing for `TraceRay`.
pub(crate) fn pipeline_of(name: &str) -> Option<&'static str> {
    const RAYS: [&str; 11] = [
        "RAY_FLAG_",
        "HIT_KIND_",
        "CANDIDATE_",
        "COMMITTED_",
        "WorldRay",
        "ObjectRay",
        "ObjectToWorld",
        "WorldToObject",
        "DispatchRays",
        "RayQuery",
        "RayT",
    ];
    let rays = matches!(
        name,
        "TraceRay"
            | "TraceRayInline"
            | "TraceMotionRay"
            | "ReportHit"
            | "ReportHitOptix"
            | "IgnoreHit"
            | "AcceptHitAndEndSearch"
            | "CallShader"
            | "RayFlags"
            | "RaytracingAccelerationStructure"
            | "InstanceIndex"
            | "InstanceID"
            | "PrimitiveIndex"
            | "GeometryIndex"
            | "BuiltInTriangleIntersectionAttributes"
            | "ReorderThread"
    );
    let hit = matches!(name, "HitKind" | "HitObject" | "HitTriangleVertexPosition");
    if rays || hit || RAYS.iter().any(|p| name.starts_with(p)) {
        return Some("ray tracing");
    }
    let pixels = matches!(name, "ddx" | "ddy" | "fwidth" | "clip" | "GetAttributeAtVertex" | "SubpassInput")
        || ["ddx_", "ddy_", "fwidth_", "EvaluateAttribute", "RasterizerOrdered"]
            .iter()
            .any(|p| name.starts_with(p));
    if pixels {
        return Some("pixel shaders");
    }
    let geometry = matches!(
        name,
        "SetMeshOutputCounts"
            | "DispatchMesh"
            | "OutputVertices"
            | "OutputIndices"
            | "OutputPrimitives"
            | "InputPatch"
            | "OutputPatch"
            | "PointStream"
            | "LineStream"
            | "TriangleStream"
    );
    geometry.then_some("geometry and mesh shaders")
}

#[cfg(test)]
mod tests {
    use super::pipeline_of;

    #[test]
    fn names() {
        assert_eq!(pipeline_of("RAY_FLAG_NONE"), Some("ray tracing"));
        assert_eq!(pipeline_of("HitKind"), Some("ray tracing"));
        assert_eq!(pipeline_of("Hitchcock"), None);
        assert_eq!(pipeline_of("ddx_fine"), Some("pixel shaders"));
        assert_eq!(pipeline_of("saturate"), None);
    }
}
