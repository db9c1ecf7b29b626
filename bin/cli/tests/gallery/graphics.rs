//! Programs that fit pictures, shapes and materials.

use crate::common::Page;

#[test]
fn gaussians() {
    let page = Page::read("gaussians");
    page.check_gradient();
    let fit = page.fit(&[("COUNT=2000", "COUNT=100"), ("6000", "300")], "");
    assert!(fit.metric("PSNR") > 18.0, "{fit}");
}

#[test]
fn brdf() {
    let page = Page::read("brdf");
    page.check_gradient();
    let fit = page.fit(&[], "");
    assert!((fit.metric("deviation") - 0.067).abs() < 0.002, "{fit}");
    // What was measured has 0.72 and 0.21.
    assert!((fit.number("/parameters/material/facing/0") - 0.746).abs() < 0.01, "{fit}");
    assert!((fit.number("/parameters/material/diffuse/0") - 0.195).abs() < 0.01, "{fit}");
    assert!(fit.number("/standard_errors/material.tail") < 0.1, "{fit}");
}

#[test]
fn hash_grid() {
    let page = Page::read("hash-grid");
    page.check_gradient();
    let fit = page.fit(&[], "--steps 60 --batch 2048 --schedule constant");
    assert!(fit.metric("PSNR") > 20.0, "{fit}");
}

#[test]
fn path_tracer() {
    let page = Page::read("path-tracer");
    page.check_gradient();
    let fit = page.fit(&[], "-D PATHS=4 -D SHOWN=4 --steps 60 --rate 0.08");
    for (name, hidden) in [("left", [0.70, 0.16, 0.10]), ("right", [0.12, 0.38, 0.62])] {
        for (k, wanted) in hidden.into_iter().enumerate() {
            let found = fit.number(&format!("/parameters/materials/{name}/{k}"));
            assert!((found - wanted).abs() < 0.06, "{name}: {found} instead of {wanted}");
        }
    }
}

#[test]
fn sdf() {
    let page = Page::read("sdf");
    page.check_gradient();
    let fit = page.fit(&[], "--steps 120 --batch 512 --schedule constant");
    // The ball at the start has 0.026.
    assert!(fit.metric("depth_error") < 0.016, "{fit}");
}

#[test]
fn splat3d() {
    let page = Page::read("splat3d");
    page.check_gradient();
    let fit = page.fit(&[("200 200 6 300", "60 40 2 40")], "--batch 512");
    // Of a picture that was not fitted. As many steps with the first 60 Gaussians alone reach 14.7 dB.
    assert!(fit.metric("PSNR-0") > 15.3, "{fit}");
}
