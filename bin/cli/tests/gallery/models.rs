//! Programs that fit models to data: textures, cameras, lenses, motions, and a classifier.

use crate::common::{Fit, Page};

/// Parameters with their true values and the most that they may be off.
fn near(fit: &Fit, parameters: &[(&str, f64, f64)]) {
    for (path, wanted, most) in parameters {
        let found = fit.number(&format!("/parameters/{path}"));
        assert!((found - wanted).abs() <= *most, "{path} is {found} instead of {wanted}\n{fit}");
    }
}

#[test]
fn texture() {
    let page = Page::read("texture");
    page.check_gradient();
    let fit = page.fit(&[], "--steps 40");
    assert!(fit.metric("PSNR") > 34.0 && fit.metric("two_parts") > 0.05, "{fit}");
}

#[test]
fn camera() {
    let page = Page::read("camera");
    page.check_gradient();
    let fit = page.fit(&[], "");
    // The camera has 900 and -0.12; one observation in 25 is wrong.
    near(&fit, &[("optics/focal", 900.0, 2.0), ("optics/bend", -0.12, 0.005)]);
    assert!(fit.metric("off") < 0.06, "{fit}");
}

#[test]
fn lens() {
    let page = Page::read("lens");
    page.check_gradient();
    let fit = page.fit(&[], "");
    assert!(fit.metric("spot") < 12.0, "{fit}");
    // Its distortion is small: 50 mm times the tangent of 18 degrees.
    near(&fit, &[("lens/image/3", 16.246, 0.1)]);
}

#[test]
fn dynamics() {
    let page = Page::read("dynamics");
    page.check_gradient();
    let fit = page.fit(&[], "");
    // Howard (2009) and the case studies of Stan have 0.55, 0.028, 0.80 and 0.024 for the same years.
    near(
        &fit,
        &[
            ("model/growth", 0.55, 0.03),
            ("model/hunted", 0.028, 0.002),
            ("model/death", 0.80, 0.03),
            ("model/fed", 0.024, 0.001),
        ],
    );
    assert!(fit.number("/standard_errors/model.growth") < 0.1, "{fit}");
    let fit = page.fit(&[("predator-prey", "pendulum")], "");
    near(
        &fit,
        &[
            ("pendulum/length", 0.82, 0.002),
            ("pendulum/friction", 0.11, 0.01),
            ("pendulum/air", 0.045, 0.004),
            ("pendulum/offset", 0.03, 0.004),
        ],
    );
}

#[test]
fn cloth() {
    let page = Page::read("cloth");
    page.check_gradient();
    // A coarser cloth is as heavy, and comes to lie on the ball as well.
    let start = page.fit(&[], "-D SIDE=5 --steps 1 --rate 1e-9").number("/loss");
    let fit = page.fit(&[], "-D SIDE=5 --steps 25");
    assert!(start > 0.15 && fit.number("/loss") < 0.5 * start, "{start} becomes {fit}");
}

#[test]
fn throw() {
    let page = Page::read("throw");
    page.check_gradient();
    let fit = page.fit(&[], "");
    // Both in metres.
    assert!(fit.metric("off") < 0.02 && fit.metric("clearance") > 0.3, "{fit}");
}

#[test]
fn arm() {
    let page = Page::read("arm");
    page.check_gradient();
    let fit = page.fit(&[], "");
    assert!((fit.number("/loss") - 0.3896606).abs() < 1e-5, "{fit}");
    // By an independent program in doubles: L-BFGS with differences, of a solver that is iterated to 1e-10.
    near(
        &fit,
        &[
            ("arm/base/0", -0.12903, 0.01),
            ("arm/base/1", 0.54190, 0.01),
            ("arm/length/0", 1.34161, 0.01),
            ("arm/length/1", 0.77457, 0.01),
            ("arm/length/2", 0.28008, 0.01),
            ("arm/length/3", 0.47142, 0.01),
            ("arm/length/4", 1.14625, 0.01),
        ],
    );
}

#[test]
fn focus() {
    let page = Page::read("focus");
    page.check_gradient();
    let fit = page.fit(&[], "");
    assert!(fit.metric("spot") < 11.0, "{fit}");
    // By an independent program in doubles, with differences of rays that are traced through the focused lens.
    near(
        &fit,
        &[
            ("lens/front/0", 0.03020, 2e-4),
            ("lens/rear/0", -0.05244, 4e-4),
            ("lens/front/1", -0.05502, 4e-4),
            ("lens/rear/1", -0.00400, 2e-4),
        ],
    );
}

#[test]
fn poisson() {
    let page = Page::read("poisson");
    page.check_gradient();
    let fit = page.fit(&[], "--steps 400");
    // The integral of the solution is 0.21408, and the area is 3.
    assert!(fit.number("/loss") < 0.02 && (fit.metric("mean") - 0.07136).abs() < 5e-4, "{fit}");
}

#[test]
fn digits() {
    let page = Page::read("digits");
    page.check_gradient();
    let fit = page.fit(&[], "--steps 300");
    assert!(fit.metric("accuracy") > 0.95 && fit.metric("validation accuracy") > 0.93, "{fit}");
}
