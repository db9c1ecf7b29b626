//! Recognises names of Slang that only have a meaning in other pipelines of a GPU, so that diagnostics can
//! say so.

/// The GPU pipeline that a built-in name belongs to if no CPU supports it: ray tracing for `TraceRay`.
pub(crate) fn pipeline_of(name: &str) -> Option<&'static str> {
    PIPELINES.iter().find(|row| row.1.split(' ').any(|known| is_match(known, name))).map(|row| row.0)
}

/// The names of each pipeline; `*` stands for any end of a name.
const PIPELINES: [(&str, &str); 3] = [
    (
        "ray tracing",
        "TraceRay TraceRayInline TraceMotionRay ReportHit ReportHitOptix IgnoreHit AcceptHitAndEndSearch \
         CallShader RayFlags RaytracingAccelerationStructure InstanceIndex InstanceID PrimitiveIndex \
         GeometryIndex BuiltInTriangleIntersectionAttributes ReorderThread HitKind HitObject \
         HitTriangleVertexPosition RAY_FLAG_* HIT_KIND_* CANDIDATE_* COMMITTED_* WorldRay* ObjectRay* \
         ObjectToWorld* WorldToObject* DispatchRays* RayQuery* RayT*",
    ),
    (
        "pixel shaders",
        "ddx ddy fwidth clip GetAttributeAtVertex SubpassInput ddx_* ddy_* fwidth_* EvaluateAttribute* \
         RasterizerOrdered*",
    ),
    (
        "geometry and mesh shaders",
        "SetMeshOutputCounts DispatchMesh OutputVertices OutputIndices OutputPrimitives InputPatch OutputPatch \
         PointStream LineStream TriangleStream",
    ),
];

fn is_match(known: &str, name: &str) -> bool {
    known.strip_suffix('*').map_or(known == name, |start| name.starts_with(start))
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
