//! Handlers that events name which are not done: who they are, and dropping or renaming one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Administration, StoreError};
use crate::handler::{HandlersError, Revised, State, check_id, dropped, renamed, states};

/// How far the handlers of one event have come that is not done, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The event's number.
    pub seq: i64,
    /// Its id.
    pub event_id: String,
    /// Whether it is dead; otherwise it is pending.
    pub is_dead: bool,
    /// Whether somebody who took it holds it under a lease that has not ended.
    pub is_leased: bool,
    /// How long ago it was written, by the database's clock.
    pub written_ago: Duration,
    /// The text, as it was [settled](super::Settlement::handlers) last.
    pub handlers: String,
}

/// A change to what is stored of one event's handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The event's number.
    pub seq: i64,
    /// Its id.
    pub event_id: String,
    /// What is stored now; if it is anything else by then, nothing is changed.
    pub from: String,
    /// What is to be stored.
    pub to: String,
    /// Whether the event is to be replayed if it is dead.
    pub replays: bool,
}

/// What the events that are not done say of a handler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerCount {
    /// Its id.
    pub id: String,
    /// Events in which it is to run.
    pub owed: u64,
    /// Those of them of which the instance that looked last said that it has no such handler.
    pub unknown: u64,
    /// Events in which it was given up.
    pub dead: u64,
    /// Events in which it is done, and which wait, or are dead, for others.
    pub done: u64,
    /// How long ago the oldest event was written in which it is owed or dead.
    pub oldest: Option<Duration>,
}

/// Handlers that are named by events which are not done.
///
/// An event names its handlers once one of them has failed, or was cut off: one that nobody has tried yet, or whose
/// handlers have all succeeded, names none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerCensus {
    /// The handlers, in the order of their ids.
    pub handlers: Vec<HandlerCount>,
    /// How many events were looked at.
    pub events: u64,
    /// Those whose text cannot be read.
    pub unreadable: u64,
    /// Whether all such events were looked at; otherwise every count is a lower bound.
    pub is_complete: bool,
}

impl HandlerCensus {
    /// Counts the handlers of at most `limit` events.
    pub async fn take(store: &(impl Administration + ?Sized), limit: usize) -> Result<Self, StoreError> {
        // One more than asked for, to see whether there are more.
        let mut progress = store.progress(None, limit.saturating_add(1)).await?;
        let is_complete = progress.len() <= limit;
        progress.truncate(limit);
        Ok(Self { is_complete, ..Self::of(&progress) })
    }

    fn of(progress: &[Progress]) -> Self {
        let mut census = Self { events: progress.len() as u64, ..Self::default() };
        let mut handlers: BTreeMap<String, HandlerCount> = BTreeMap::new();
        for Progress { handlers: text, written_ago, .. } in progress {
            let Ok(states) = states(text) else {
                census.unreadable += 1;
                continue;
            };
            for (id, state) in states {
                let count = handlers
                    .entry(id)
                    .or_insert_with_key(|id| HandlerCount { id: id.clone(), ..HandlerCount::default() });
                count.add(state, *written_ago);
            }
        }
        census.handlers = handlers.into_values().collect();
        census
    }

    /// Those that are owed, though the instance that looked last has no such handler.
    pub fn unknown(&self) -> impl Iterator<Item = &HandlerCount> {
        self.handlers.iter().filter(|handler| handler.unknown > 0)
    }
}

impl HandlerCount {
    fn add(&mut self, state: State, written_ago: Duration) {
        match state {
            State::Done => self.done += 1,
            State::Dead => self.dead += 1,
            State::Owed { is_unknown } => {
                self.owed += 1;
                self.unknown += u64::from(is_unknown);
            }
        }
        if state != State::Done {
            self.oldest = self.oldest.max(Some(written_ago));
        }
    }
}

/// Takes a handler out of the events that name it, or gives it another id there.
///
/// [Look](Self::look) for the events, and [apply](Self::apply) it to some hundreds of them at a time:
///
/// ```
/// use pillarbox::store::{Administration, HandlerChange, StoreError};
///
/// async fn forget(store: &impl Administration) -> Result<(), Box<dyn std::error::Error>> {
///     let change = HandlerChange::drop("search")?;
///     for events in change.look(store, 10_000).await?.chunks(500) {
///         let changed = change.apply(store, events).await?;
///         println!("{} changed, {} busy: try again later", changed.changed, changed.busy);
///     }
///     Ok(())
/// }
/// ```
///
/// A pending event that was changed is looked at again, and the engine decides what becomes of it: it is done if nobody
/// else is owed, and dead if somebody else is. A dead event stays dead as long as it is for another handler, and is
/// replayed otherwise; those of its handlers that are done do not run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerChange {
    id: String,
    to: Option<String>,
}

/// What became of events that a change was applied to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlersChanged {
    /// They were changed.
    pub changed: u64,
    /// Those of them that were dead, and are pending now.
    pub replayed: u64,
    /// Somebody holds them, or has changed them since they were looked at: try again.
    pub busy: u64,
    /// They name the old id and the new one, and were left alone.
    pub has_both: u64,
}

impl std::ops::AddAssign for HandlersChanged {
    fn add_assign(&mut self, other: Self) {
        self.changed += other.changed;
        self.replayed += other.replayed;
        self.busy += other.busy;
        self.has_both += other.has_both;
    }
}

impl HandlerChange {
    /// Takes the handler with this id out. Fails if that is no id of a handler.
    pub fn drop(id: impl Into<String>) -> Result<Self, HandlersError> {
        let id = id.into();
        check_id(&id)?;
        Ok(Self { id, to: None })
    }

    /// Gives the handler with the id `from` the id `to`, with all that is stored of it. Fails if one of them is no id of
    /// a handler. An event that names both is left alone.
    pub fn rename(from: impl Into<String>, to: impl Into<String>) -> Result<Self, HandlersError> {
        let to = to.into();
        check_id(&to)?;
        Ok(Self { to: Some(to), ..Self::drop(from)? })
    }

    /// The events that name the handler, at most `limit`. What cannot be read is left out.
    pub async fn look(
        &self,
        store: &(impl Administration + ?Sized),
        limit: usize,
    ) -> Result<Vec<Progress>, StoreError> {
        let mut found = store.progress(Some(&self.id), limit).await?;
        found.retain(|progress| self.revise(progress) != Revised::Unconcerned);
        found.sort_unstable_by_key(|progress| progress.seq);
        Ok(found)
    }

    /// What would become of these events now, as far as can be seen without changing them.
    pub fn foresee(&self, events: &[Progress]) -> HandlersChanged {
        let mut foreseen = HandlersChanged::default();
        for progress in events {
            match self.revise(progress) {
                Revised::Unconcerned => {}
                Revised::HasBoth => foreseen.has_both += 1,
                Revised::Becomes { .. } if progress.is_leased => foreseen.busy += 1,
                Revised::Becomes { is_cured, .. } => {
                    foreseen.changed += 1;
                    foreseen.replayed += u64::from(is_cured && progress.is_dead);
                }
            }
        }
        foreseen
    }

    /// Changes these events, in one transaction: hand over some hundreds at most.
    pub async fn apply(
        &self,
        store: &(impl Administration + ?Sized),
        events: &[Progress],
    ) -> Result<HandlersChanged, StoreError> {
        let mut all = HandlersChanged::default();
        let mut revisions = Vec::new();
        for progress in events {
            match self.revise(progress) {
                Revised::Unconcerned => {}
                Revised::HasBoth => all.has_both += 1,
                Revised::Becomes { text, is_cured } => revisions.push(Revision {
                    seq: progress.seq,
                    event_id: progress.event_id.clone(),
                    from: progress.handlers.clone(),
                    to: text,
                    replays: is_cured && progress.is_dead,
                }),
            }
        }
        if revisions.is_empty() {
            return Ok(all);
        }
        let changed = store.revise(&revisions).await?;
        for revision in &revisions {
            let is_changed = changed.contains(&revision.seq);
            all.changed += u64::from(is_changed);
            all.replayed += u64::from(is_changed && revision.replays);
            all.busy += u64::from(!is_changed);
        }
        Ok(all)
    }

    fn revise(&self, Progress { handlers, .. }: &Progress) -> Revised {
        let revised = match &self.to {
            None => dropped(handlers, &self.id),
            Some(to) => renamed(handlers, &self.id, to),
        };
        revised.unwrap_or(Revised::Unconcerned)
    }
}

/// What the text of an event that names this handler contains, so that a database can look for it.
pub fn handler_needle(id: &str) -> String {
    format!("\"{id}\":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(seq: i64, handlers: &str) -> Progress {
        Progress {
            seq,
            event_id: format!("order-{seq}"),
            is_dead: false,
            is_leased: false,
            written_ago: Duration::from_secs(seq.unsigned_abs()),
            handlers: handlers.to_owned(),
        }
    }

    /// L3: handlers are counted by where they stand, with the oldest event that still has to do with them.
    #[test]
    fn handlers_are_counted_by_where_they_stand() {
        let census = HandlerCensus::of(&[
            progress(1, r#"{"mail":"done","search":{"owed":{"failures":0,"after_us":0}}}"#),
            progress(
                2,
                r#"{"mail":{"dead":{"failures":3}},"search":{"owed":{"failures":0,"after_us":0,"unknown":true}}}"#,
            ),
            progress(3, r#"{"mail":"done"}"#),
            progress(4, "[17]"),
        ]);

        let [mail, search] = &census.handlers[..] else { panic!("{census:?}") };
        assert_eq!((mail.owed, mail.dead, mail.done, mail.unknown), (0, 1, 2, 0));
        assert_eq!(mail.oldest, Some(Duration::from_secs(2)));
        assert_eq!((search.owed, search.dead, search.done, search.unknown), (2, 0, 0, 1));
        assert_eq!((census.events, census.unreadable), (4, 1));
        assert_eq!(census.unknown().map(|handler| &*handler.id).collect::<Vec<_>>(), ["search"]);
    }

    /// L3: an id that cannot be one is refused before anything is looked for.
    #[test]
    fn id_that_is_none_is_refused() {
        let wrong = HandlerChange::rename("search", "full text").unwrap_err();

        assert!(wrong.to_string().contains("1 to 64 letters"), "{wrong}");
        assert!(HandlerChange::drop("").is_err());
        let word = HandlerChange::drop("dead").unwrap_err();
        assert!(word.to_string().contains("choose another"), "{word}");
    }
}
