//! Programs that fit pictures, shapes and materials.

use crate::common::Page;

#[test]
fn gaussians() {
    let page = Page::read("gaussians");
    page.check_gradient();
    let fit = page.fit(&[("COUNT=2000", "COUNT=100"), ("6000", "300")], "");
    assert!(fit.metric("PSNR") > 18.0, "{fit}");
}
