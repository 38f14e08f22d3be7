//! What one request changes: kept back until it is on disk, then shown to all watchers together.
//!
//! Promise: nobody sees a change that a crash could take back; all changes of a request are kept, or none.
//! Must not know what the changes mean.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::feed::{Change, Feed};
use super::{Store, key};
use crate::disk::{Disk, DiskError};
use crate::kind::{CollectionId, Resource};
use crate::managed::{Kept, Managed};
use crate::object::{Body, MANAGED, Stored, metadata_mut, text};

/// A change, and of what.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) of: Arc<Resource>,
    pub(crate) change: Arc<Change>,
}

/// What was changed and is not committed yet.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    effects: Vec<Effect>,
    /// What watchers are to hear, in this order.
    news: Vec<News>,
}

#[derive(Debug)]
enum News {
    Change(Arc<Feed>, Arc<Change>),
    End(Arc<Feed>),
}

// === impl Batch ===

impl Batch {
    pub(super) fn add(&mut self, of: Arc<Resource>, feed: Arc<Feed>, change: Arc<Change>) {
        self.news.push(News::Change(feed, change.clone()));
        self.effects.push(Effect { of, change });
    }

    /// No more changes of that kind.
    pub(super) fn end(&mut self, feed: Arc<Feed>) {
        self.news.push(News::End(feed));
    }
}

// === impl Store ===

impl Store {
    /// Keep what was changed since the last commit, then show it to watchers; what that was.
    pub(crate) fn commit(&mut self) -> Result<Vec<Effect>, DiskError> {
        let Batch { effects, news } = std::mem::take(&mut self.batch);
        if let Some(mut disk) = self.disk.take() {
            let kept = disk.append(&effects);
            if kept.is_ok() && disk.is_due() {
                disk.begin_snapshot(self.revision, self.contents());
            }
            self.disk = Some(disk);
            kept?;
        }
        if news.is_empty() {
            return Ok(effects);
        }
        for news in &news {
            if let News::Change(feed, change) = news {
                feed.push(change.clone());
            }
        }
        // Bookmarks may name this revision only once all changes up to it are in their feeds.
        self.published.store(self.revision, Ordering::Release);
        let mut woken: Option<&Arc<Feed>> = None;
        for news in &news {
            match news {
                News::End(feed) => feed.end(),
                News::Change(feed, _) if woken.is_some_and(|last| Arc::ptr_eq(last, feed)) => {}
                News::Change(feed, _) => {
                    feed.wake();
                    woken = Some(feed);
                }
            }
        }
        Ok(effects)
    }

    /// Take nothing of what was changed since the last commit to the disk or to watchers: a panic has ended it halfway.
    pub(crate) fn tear(&mut self) {
        self.batch = Batch::default();
        self.torn = true;
    }

    /// Whether the objects are not those that were committed.
    pub(crate) fn is_torn(&self) -> bool {
        self.torn
    }

    /// Why nothing can be kept any more, if so.
    pub(crate) fn broken(&self) -> Option<DiskError> {
        self.disk.as_ref().and_then(Disk::broken)
    }

    /// From now on, everything is kept there.
    pub(crate) fn keep_on(&mut self, disk: Disk) {
        self.disk = Some(disk);
        // Nobody has watched yet, and what was before is not remembered.
        self.compact();
        self.published.store(self.revision, Ordering::Release);
    }

    /// All objects, definitions first.
    fn contents(&self) -> Vec<(Arc<Resource>, Vec<Arc<Stored>>)> {
        let mut contents: Vec<_> = self
            .collections
            .values()
            .filter(|found| !found.objects.is_empty())
            .map(|found| (found.of.clone(), found.objects.values().cloned().collect()))
            .collect();
        contents.sort_by_key(|(of, _): &(Arc<Resource>, _)| {
            let defines = of.plural == "customresourcedefinitions";
            (!defines, of.to_string())
        });
        contents
    }

    /// How many objects there are.
    pub(crate) fn count(&self) -> usize {
        self.collections.values().map(|c| c.objects.len()).sum()
    }

    /// An object as it was kept, at the revision it has; nobody is told.
    pub(crate) fn restore(&mut self, id: CollectionId, mut body: Body, revision: u64) {
        let managed = metadata_mut(&mut body).remove(MANAGED);
        let managed = managed.as_ref().and_then(Managed::from_json);
        let names = self.collections.get(&id);
        let names = names.map(|found| (found.api_version.clone(), found.kind.clone()));
        let (usual, kind) = names.unwrap_or_default();
        let api_version = Some(text(&body, "apiVersion").to_owned());
        let api_version = api_version.filter(|own| !own.is_empty()).unwrap_or(usual);
        let kept = Kept::new(managed.unwrap_or_default());
        let stored = Stored::new(&body, kept, (&api_version, &kind), revision);
        self.place(id, &Arc::new(stored));
        self.revision = self.revision.max(revision);
    }

    /// A removal as it was kept; what went.
    pub(crate) fn restore_removal(
        &mut self,
        id: CollectionId,
        key: &str,
        revision: u64,
    ) -> Option<Arc<Stored>> {
        self.revision = self.revision.max(revision);
        self.displace(id, key)
    }

    /// The revision is at least this one.
    pub(crate) fn restore_revision(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }
}

// === impl Effect ===

impl Effect {
    /// Where the object is, or was, in its collection.
    pub(crate) fn key(&self) -> String {
        let slim = &self.change.now.slim;
        key(slim.namespace.as_deref(), &slim.name)
    }
}
