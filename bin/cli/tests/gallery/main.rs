//! The gallery: every page of `docs/gallery` has a command that makes its picture and one that checks its gradient.
//! Here both run as they stand on the page, the first with flags that make it small, and must reach what a fit of that
//! size reaches.

mod common;
mod graphics;
mod models;

use common::{Page, ROOT, pages};

/// A page says everything that a reader asks first, shows a picture that loads quickly, and is in the index.
#[test]
fn pages_are_complete() {
    let index = std::fs::read_to_string(format!("{ROOT}/docs/gallery.md")).expect("an index");
    let mut faults = Vec::new();
    let names = pages();
    for name in &names {
        let page = Page::read(name);
        faults.extend(page.faults());
        for link in [format!("(gallery/{name}.md)"), format!("images/gallery/{name}.")] {
            if !index.contains(&link) {
                faults.push(format!("docs/gallery.md has no `{link}`"));
            }
        }
    }
    for link in index.split("(gallery/").skip(1).filter_map(|rest| rest.split_once(".md)")) {
        if !names.iter().any(|name| name == link.0) {
            faults.push(format!("docs/gallery.md leads to `{}`, which is not there", link.0));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(names.len(), 16, "docs/gallery.md speaks of sixteen programs");
}
