//! All that is wrong with a type, told at once.

use syn::Error;

/// The mistakes that were found so far.
#[derive(Default)]
pub(crate) struct Mistakes(Option<Error>);

impl Mistakes {
    pub(crate) fn add(&mut self, mistake: Error) {
        match &mut self.0 {
            Some(all) => all.combine(mistake),
            None => self.0 = Some(mistake),
        }
    }

    /// `Ok` if there are none.
    pub(crate) fn none(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Err)
    }
}
