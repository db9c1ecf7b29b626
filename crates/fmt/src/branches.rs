//! Follows the branches of `#if`: each begins in the state that was there before the first.
//!
//! Brackets that differ between branches (a signature for each of two platforms) would otherwise never match. After
//! `#endif`, the state is that of the first branch.

/// The open `#if`s, each with the state before it and, from the second branch on, that after the first.
#[derive(Clone, Debug)]
pub(crate) struct Branches<T>(Vec<(T, Option<T>)>);

impl<T> Default for Branches<T> {
    fn default() -> Self {
        Branches(Vec::new())
    }
}

impl<T: Clone> Branches<T> {
    /// Changes the state as the directive of this name requires.
    pub(crate) fn directive(&mut self, name: &str, state: &mut T) {
        match name {
            "if" | "ifdef" | "ifndef" => self.0.push((state.clone(), None)),
            "else" | "elif" | "elifdef" | "elifndef" => {
                if let Some((before, first)) = self.0.last_mut() {
                    let end = std::mem::replace(state, before.clone());
                    first.get_or_insert(end);
                }
            }
            "endif" => {
                if let Some((_, Some(first))) = self.0.pop() {
                    *state = first;
                }
            }
            _ => {}
        }
    }
}
