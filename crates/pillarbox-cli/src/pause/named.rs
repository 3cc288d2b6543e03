//! Which routes are meant, and whether there are such.

use std::path::PathBuf;

use clap::Args;
use pillarbox::Route;
use pillarbox::spelling::nearest;

use crate::exit::Unusable;
use crate::figure;
use crate::relay::config::Config;
use crate::relay::usable;

/// Routes by their names.
#[derive(Args, Debug)]
pub(super) struct Named {
    /// The names of the routes
    #[arg(value_name = "ROUTE", required_unless_present = "without_names")]
    pub(super) routes: Vec<String>,

    /// The relay's file; a name that no route has there is refused
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Named {
    /// Whether names are looked up.
    pub(super) fn is_checked(&self) -> bool {
        self.config.is_some()
    }

    /// Refuses names that no route can have, or none has in the file; but for those in `known`.
    pub(super) fn check(&self, known: &[&str]) -> anyhow::Result<()> {
        let asked = || self.routes.iter().filter(|route| !known.contains(&route.as_str()));
        for route in asked() {
            Route::check_name(route).map_err(|error| Unusable(figure::plain(&error.to_string())))?;
        }
        let Some(file) = &self.config else { return Ok(()) };
        let config = usable(Config::read(file))?;
        let names: Vec<&str> = config.routes.iter().map(|route| route.name.get_ref().as_str()).collect();
        match asked().find(|route| !names.contains(&route.as_str())) {
            Some(unknown) => {
                let meant = nearest(unknown, &names).map(|name| format!("did you mean `{name}`? "));
                let (meant, file, there) = (meant.unwrap_or_default(), file.display(), names.join("`, `"));
                Err(Unusable(format!("{file} has no route `{unknown}`; {meant}there are `{there}`")).into())
            }
            None => Ok(()),
        }
    }
}
