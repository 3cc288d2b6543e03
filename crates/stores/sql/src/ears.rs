//! Handles of one store, each of which hears all news.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pillarbox::PartitionSet;
use tokio::sync::Notify;

/// What one handle of a store has heard: the partitions of all news since it last asked.
#[derive(Debug, Default)]
pub struct Ear {
    heard: Mutex<PartitionSet>,
    news: Notify,
}

/// All handles of a store that ever asked and still live.
#[derive(Debug, Default)]
pub struct Ears {
    all: Mutex<Vec<Weak<Ear>>>,
}

impl Ear {
    /// Something may be new in these partitions.
    pub fn tell(&self, partitions: PartitionSet) {
        *self.lock() |= partitions;
        self.news.notify_one();
    }

    /// Completes when something was told since the last time. Cancelling it loses nothing.
    pub async fn heard(&self) -> PartitionSet {
        loop {
            self.news.notified().await;
            let heard = std::mem::take(&mut *self.lock());
            // What was told in between has been heard already.
            if !heard.is_empty() {
                return heard;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PartitionSet> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ears {
    /// Takes a handle in; false if it is there already.
    pub fn admit(&self, ear: &Arc<Ear>) -> bool {
        let mut all = self.lock();
        if all.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(ear))) {
            return false;
        }
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(ear));
        true
    }

    /// Tells all handles.
    pub fn tell_all(&self, partitions: PartitionSet) {
        self.listeners().for_each(|ear| ear.tell(partitions));
    }

    /// Tells all but the one that speaks.
    pub fn tell_others(&self, speaker: &Arc<Ear>, partitions: PartitionSet) {
        self.listeners().filter(|ear| !Arc::ptr_eq(ear, speaker)).for_each(|ear| ear.tell(partitions));
    }

    fn listeners(&self) -> impl Iterator<Item = Arc<Ear>> {
        self.lock().iter().filter_map(Weak::upgrade).collect::<Vec<_>>().into_iter()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Ear>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    fn some(partitions: &[u8]) -> PartitionSet {
        partitions.iter().copied().collect()
    }

    /// What an ear has heard by now, if anything.
    async fn by_now(ear: &Ear) -> Option<PartitionSet> {
        let mut heard = pin!(ear.heard());
        poll_fn(|context| {
            Poll::Ready(match heard.as_mut().poll(context) {
                Poll::Ready(heard) => Some(heard),
                Poll::Pending => None,
            })
        })
        .await
    }

    /// P5: every handle hears everything but itself, once, and what came meanwhile all together.
    #[tokio::test]
    async fn each_handle_hears_the_others() {
        let (ears, first, second) = (Ears::default(), Arc::<Ear>::default(), Arc::<Ear>::default());
        assert!(ears.admit(&first) && ears.admit(&second));
        assert!(!ears.admit(&first), "it is there already");

        ears.tell_others(&first, some(&[7]));
        ears.tell_all(some(&[200]));

        assert_eq!(by_now(&first).await, Some(some(&[200])));
        assert_eq!(by_now(&second).await, Some(some(&[7, 200])));
        assert_eq!(by_now(&second).await, None);
    }

    /// P5: who stops waiting loses nothing, and who is told while he wakes up is not woken for nothing again.
    #[tokio::test]
    async fn cancelled_wait_loses_nothing() {
        let ear = Arc::<Ear>::default();
        {
            let mut cancelled = Box::pin(ear.heard());
            assert!(poll_fn(|context| Poll::Ready(cancelled.as_mut().poll(context).is_pending())).await);
            ear.tell(some(&[7]));
            ear.tell(some(&[8]));
        }

        assert_eq!(by_now(&ear).await, Some(some(&[7, 8])));
        assert_eq!(by_now(&ear).await, None);
    }
}
