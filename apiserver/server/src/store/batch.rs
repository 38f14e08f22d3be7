//! The changes of one request, held back until they are on disk and then published to all watchers together.
//!
//! Guarantees that no one observes a change that a crash could undo, and that a request's changes are persisted all or not at all.
//! Must not know the meaning of changes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::feed::{Change, Feed};
use super::{Store, key};
use crate::disk::{Disk, DiskError};
use crate::kind::{CollectionId, Resource};
use crate::managed::{Kept, Managed};
use crate::object::{Body, MANAGED, Stored, metadata_mut, text};

/// A change, and its resource.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) of: Arc<Resource>,
    pub(crate) change: Arc<Change>,
}

/// The uncommitted changes.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    effects: Vec<Effect>,
    /// The pending notifications of watchers, in order.
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

    /// Ends the feed of a removed kind.
    pub(super) fn end(&mut self, feed: Arc<Feed>) {
        self.news.push(News::End(feed));
    }
}

// === impl Store ===

impl Store {
    /// Persists the changes since the last commit, publishes them to watchers, and returns them.
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
        // Bookmarks may name this revision only after all changes up to it are in their feeds.
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

    /// Discards the changes since the last commit after a panic, so that they reach neither the disk nor watchers.
    pub(crate) fn tear(&mut self) {
        self.batch = Batch::default();
        self.torn = true;
    }

    /// Returns whether the objects differ from the committed state.
    pub(crate) fn is_torn(&self) -> bool {
        self.torn
    }

    /// Returns the error that prevents further persistence, if there is one.
    pub(crate) fn broken(&self) -> Option<DiskError> {
        self.disk.as_ref().and_then(Disk::broken)
    }

    /// Persists all further changes on this disk.
    pub(crate) fn keep_on(&mut self, disk: Disk) {
        self.disk = Some(disk);
        // No one watches yet, and the history from before is not available.
        self.compact();
        self.published.store(self.revision, Ordering::Release);
    }

    /// Returns all objects, definitions first.
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

    /// Returns the number of objects.
    pub(crate) fn count(&self) -> usize {
        self.collections.values().map(|c| c.objects.len()).sum()
    }

    /// Restores a persisted object at its revision without notifications.
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

    /// Restores a persisted removal; returns the removed object.
    pub(crate) fn restore_removal(
        &mut self,
        id: CollectionId,
        key: &str,
        revision: u64,
    ) -> Option<Arc<Stored>> {
        self.revision = self.revision.max(revision);
        self.displace(id, key)
    }

    /// Raises the revision to at least this one.
    pub(crate) fn restore_revision(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }
}

// === impl Effect ===

impl Effect {
    /// Returns the key of the object in its collection.
    pub(crate) fn key(&self) -> String {
        let slim = &self.change.now.slim;
        key(slim.namespace.as_deref(), &slim.name)
    }
}
