//! `watch`: streams the changes of a collection from a revision on, as lines of JSON.
//!
//! Guarantees that each matching change is sent once and in order, that bookmarks never overtake events, and that a line is computed
//! only when it is read. Must not depend on faults or transports.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::list::parse_revision;
use super::{Answer, Content, Target};
use crate::call::{Call, Form};
use crate::clock::Clock;
use crate::convert::{self, Waiting};
use crate::kind::{Kind, Shape};
use crate::object::{Stored, set_path};
use crate::render::{self, ListMeta};
use crate::selector::Selector;
use crate::status::{Cause, Refusal, options};
use crate::store::Store;
use crate::store::feed::{Change, Event, Feed, Lost};
use crate::table;
use crate::typed;

/// The maximum number of changes that are taken from the feed at a time.
const BATCH: usize = 64;
/// The interval of bookmarks on an idle watch.
const BOOKMARK: Duration = Duration::from_secs(60);
/// The lifetime of a watch whose request does not set one.
const LIFETIME: Duration = Duration::from_secs(1800);
/// The maximum lifetime in seconds, one year: a longer one could overflow when it is added to the current time.
const LONGEST: u64 = 365 * 24 * 3600;

/// An open watch.
#[derive(Debug)]
pub(crate) struct Watch {
    kind: Arc<Kind>,
    /// Converts objects to the version of the watch, if the kind needs that.
    waiting: Option<Waiting>,
    prefix: String,
    selector: Selector,
    form: Form,
    clock: Clock,
    feed: Arc<Feed>,
    woken: Receiver<()>,
    /// The feed's epoch when the watch began; the watch ends when the feed has moved to a newer one.
    epoch: u64,
    initial: VecDeque<Arc<Stored>>,
    pending: VecDeque<Arc<Change>>,
    position: u64,
    mark_initial_end: bool,
    /// The time of the next bookmark; `None` if the watch has none.
    next_bookmark: Option<Instant>,
    deadline: Instant,
    ended: bool,
    columns_told: bool,
}

/// A line to send.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) text: Bytes,
    /// True for an event of an object; false for a bookmark or an error.
    pub(crate) event: bool,
}

pub(crate) fn watch(store: &mut Store, target: &Target<'_>) -> Result<Answer, Refusal> {
    let call = target.call;
    let mut selector = Selector::parse(
        &target.kind,
        call.param("labelSelector"),
        call.param("fieldSelector"),
    )?;
    if let Some(name) = &target.path.name {
        selector = selector.named(name);
    }
    let asked = asked(target)?;
    let told = is_told_of_start(call);
    // As on the real server, a watch from any version begins with the existing objects.
    let unsaid = !told && matches!(call.param("resourceVersion"), "" | "0");
    let streaming = unsaid || call.switch("sendInitialEvents");
    if streaming && asked > store.revision() {
        return Err(Refusal::too_new(asked, store.revision()));
    }
    let from_now = asked == 0 || streaming;
    let wants_initial = if told { streaming } else { asked == 0 };
    let prefix = target.prefix();
    let mut initial = VecDeque::new();
    if wants_initial {
        let all = store.under(target.kind.collection, &prefix);
        initial.extend(convert::views(store, &target.kind, all.iter())?);
        initial.retain(|stored| selector.matches(stored));
    }
    let Some(collection) = store.collection(target.kind.collection) else {
        return Err(Refusal::no_page());
    };
    let oldest = store.oldest(target.kind.collection);
    let now = Instant::now();
    let watch = Watch {
        kind: target.kind.clone(),
        waiting: Waiting::of(store, &target.kind),
        prefix,
        selector,
        form: target.form,
        clock: store.clock.clone(),
        feed: collection.feed.clone(),
        woken: collection.feed.subscribe(),
        epoch: collection.feed.epoch(),
        initial,
        pending: VecDeque::new(),
        position: if from_now { store.revision() } else { asked },
        mark_initial_end: streaming && call.switch("allowWatchBookmarks"),
        next_bookmark: call.switch("allowWatchBookmarks").then(|| now + BOOKMARK),
        deadline: now + lifetime(call.param("timeoutSeconds")),
        ended: false,
        columns_told: false,
    };
    let mut answer = Answer::bytes(200, Bytes::new());
    let late = call.param("timeoutSeconds").starts_with('-');
    answer.content = if late || matches!(target.form, Form::Partials(_)) {
        // No time is left, or, for `PartialObjectMetadataList`, the first event could not be rendered and would end the watch.
        Content::Bytes(Bytes::new())
    } else if !from_now && asked < oldest {
        // A watch from a compacted version consists of one error event.
        Content::Bytes(error_line(&Refusal::too_old(asked, oldest)))
    } else {
        Content::Watch(Box::new(watch))
    };
    Ok(answer)
}

/// Returns the version at which a watch begins, if the parameters are valid.
fn asked(target: &Target<'_>) -> Result<u64, Refusal> {
    super::list::check_numbers(target.call)?;
    check_options(target)?;
    let asked = parse_revision(target.call.param("resourceVersion"))
        .map_err(Refusal::internal)?
        .unwrap_or_default();
    match (target.form, target.misfit(true)) {
        (Form::Table(_), Some(refusal)) => Err(refusal),
        _ => Ok(asked),
    }
}

/// Returns whether a request sets `sendInitialEvents`.
fn is_told_of_start(call: &Call) -> bool {
    call.query.iter().any(|(key, _)| key == "sendInitialEvents")
}

fn lifetime(text: &str) -> Duration {
    match text.parse::<u64>() {
        Ok(seconds) if seconds > 0 => Duration::from_secs(seconds.min(LONGEST)),
        _ => LIFETIME,
    }
}

fn check_options(target: &Target<'_>) -> Result<(), Refusal> {
    let call = target.call;
    let told = is_told_of_start(call);
    let matching = call.param("resourceVersionMatch");
    let mut causes = Vec::new();
    let mut forbidden =
        |message: &str| causes.push(Cause::forbidden("resourceVersionMatch", message));
    if !told && !matching.is_empty() {
        forbidden(
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        );
    }
    if told && matching != "NotOlderThan" {
        forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    // A watch from any version counts as one that begins with the existing objects.
    let any = matches!(call.param("resourceVersion"), "" | "0");
    if !call.param("continue").is_empty() && (any || !matching.is_empty()) {
        forbidden("resourceVersionMatch is forbidden when continue is provided");
    }
    if !matching.is_empty() && matching != "NotOlderThan" {
        let message =
            format!("Unsupported value: {matching:?}: supported values: \"NotOlderThan\"");
        causes.push(Cause::new(
            "FieldValueNotSupported",
            "resourceVersionMatch",
            message,
        ));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Refusal::invalid(options("ListOptions"), &causes))
}

/// Returns the line of an error event.
pub(crate) fn error_line(refusal: &Refusal) -> Bytes {
    line("ERROR", &render::to_bytes(&refusal.body()))
}

fn line(event: &str, object: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(object.len() + 40);
    text.extend_from_slice(b"{\"type\":\"");
    text.extend_from_slice(event.as_bytes());
    text.extend_from_slice(b"\",\"object\":");
    text.extend_from_slice(object);
    text.extend_from_slice(b"}\n");
    text.into()
}

// === impl Watch ===

impl Watch {
    /// Waits for the next line; returns `None` when the watch is over.
    pub(crate) async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.ready().await {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            let until = self
                .next_bookmark
                .map_or(self.deadline, |next| next.min(self.deadline));
            if let Ok(woken) = tokio::time::timeout_at(until, self.woken.changed()).await {
                self.ended |= woken.is_err() && self.pending.is_empty();
                continue;
            }
            if Instant::now() >= self.deadline {
                return None;
            }
            self.next_bookmark = Some(Instant::now() + BOOKMARK);
            if let Some(revision) = self.caught_up() {
                return Some(self.bookmark(revision, false));
            }
        }
    }

    /// Returns whether the lifetime is over.
    pub(crate) fn is_expired(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Returns a line that is ready; waits for conversions only.
    async fn ready(&mut self) -> Option<Line> {
        if let Some(stored) = self.initial.pop_front() {
            let text = self.event_line(Event::Added, &stored);
            return Some(Line { text, event: true });
        }
        if std::mem::take(&mut self.mark_initial_end) {
            return Some(self.bookmark(self.position, true));
        }
        loop {
            if self.pending.is_empty() {
                let sent_away = self.feed.epoch() != self.epoch;
                match self.feed.after(self.position, BATCH) {
                    Ok(found) if found.is_empty() && sent_away => self.ended = true,
                    Ok(found) => self.pending.extend(found),
                    Err(Lost::Ended) => self.ended = true,
                    Err(Lost::Behind) if self.ended => {}
                    Err(Lost::Behind) => {
                        self.ended = true;
                        let refusal = Refusal::too_old(self.position, self.feed.lost());
                        return Some(Line {
                            text: error_line(&refusal),
                            event: false,
                        });
                    }
                }
            }
            let change = self.pending.front()?.clone();
            // Keep the change in the queue until it is converted, because the caller may drop this future.
            let Ok(change) = self.in_version(change).await else {
                self.pending.clear();
                self.ended = true;
                return None;
            };
            self.pending.pop_front();
            self.position = change.revision;
            if let Some(text) = self.change_line(&change) {
                return Some(Line { text, event: true });
            }
        }
    }

    /// Converts a change to the version of the watch.
    async fn in_version(&self, change: Arc<Change>) -> Result<Arc<Change>, String> {
        let Some(waiting) = &self.waiting else {
            return Ok(change);
        };
        let before = match &change.before {
            Some(before) => Some(waiting.view(&self.kind, before).await?),
            None => None,
        };
        let now = match &before {
            // A deletion shows the last state before it.
            Some(before) if change.event == Event::Deleted => {
                Arc::new(self.at_revision(before, change.revision))
            }
            _ => waiting.view(&self.kind, &change.now).await?,
        };
        let (event, revision) = (change.event, change.revision);
        Ok(Arc::new(Change::new(event, revision, now, before)))
    }

    /// Returns the revision up to which everything was sent, or `None` if changes are left.
    fn caught_up(&self) -> Option<u64> {
        let revision = self.feed.published();
        let rest = self.feed.after(self.position, 1);
        rest.is_ok_and(|rest| rest.is_empty())
            .then_some(revision.max(self.position))
    }

    /// Renders a change for this watch: `None` if the selector does not match, `DELETED` if it no longer matches.
    fn change_line(&mut self, change: &Change) -> Option<Bytes> {
        let covers = |stored: &Arc<Stored>| self.covers(stored);
        let before = change.before.as_ref().filter(|stored| covers(stored));
        let now =
            Some(&change.now).filter(|stored| change.event != Event::Deleted && covers(stored));
        let plain = self.form == Form::Whole
            && self.kind.shape == Shape::Stored
            && self.kind.conversion.is_none()
            && self.kind.is_native();
        match (before, now) {
            (None, None) => None,
            (Some(before), None) => {
                let last = if change.event == Event::Deleted {
                    change.now.clone()
                } else {
                    Arc::new(self.at_revision(before, change.revision))
                };
                Some(self.event_line(Event::Deleted, &last))
            }
            (before, Some(now)) => {
                let event = if before.is_some() {
                    Event::Modified
                } else {
                    Event::Added
                };
                if plain && event == change.event {
                    return Some(
                        change
                            .line
                            .get_or_init(|| self.event_line(event, now))
                            .clone(),
                    );
                }
                Some(self.event_line(event, now))
            }
        }
    }

    fn covers(&self, stored: &Stored) -> bool {
        let inside = match (&stored.slim.namespace, self.prefix.strip_suffix('/')) {
            (Some(namespace), Some(wanted)) => namespace == wanted,
            _ => true,
        };
        inside && self.selector.matches(stored)
    }

    fn at_revision(&self, stored: &Stored, revision: u64) -> Stored {
        let mut body = stored.body();
        crate::object::metadata_mut(&mut body)
            .insert("resourceVersion".to_owned(), revision.to_string().into());
        let api_version = self.kind.held_version();
        let names = (api_version.as_str(), self.kind.kind.as_str());
        Stored::new(&body, stored.kept.clone(), names, revision)
    }

    fn event_line(&mut self, event: Event, stored: &Stored) -> Bytes {
        let word = event.word();
        if let Form::Table(look) = self.form {
            let meta = ListMeta {
                revision: stored.slim.revision,
                ..ListMeta::default()
            };
            let table = table::table(&self.kind, &[stored], &meta, self.clock.now(), look);
            return self.table_line(word, table);
        }
        line(word, &render::object(&self.kind, stored, self.form))
    }

    /// Renders a table; only the first line has the column definitions.
    fn table_line(&mut self, word: &str, mut table: Value) -> Bytes {
        if std::mem::replace(&mut self.columns_told, true) {
            table["columnDefinitions"] = Value::Null;
        }
        line(word, &render::to_bytes(&table))
    }

    fn bookmark(&mut self, revision: u64, initial_end: bool) -> Line {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = json!({
            "kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata,
        });
        let text = match self.form {
            Form::Table(look) => {
                let table = table::bookmark(
                    &self.kind,
                    [&object, &self.whole(&object)],
                    self.clock.now(),
                    look,
                );
                self.table_line("BOOKMARK", table)
            }
            Form::Partial(version) => {
                let partial = render::metadata_of(&object, version);
                line("BOOKMARK", &render::to_bytes(&partial))
            }
            _ => line("BOOKMARK", &render::to_bytes(&self.whole(&object))),
        };
        Line { text, event: false }
    }

    /// Renders a built-in object with only its metadata set, as Go writes it.
    fn whole(&self, object: &Value) -> Value {
        let typed = self.kind.typed();
        let mut whole = typed.map(typed::zero_object).unwrap_or_default();
        // Conversion through Go's internal type turns an absent number into zero.
        if self.kind.group == "apps" && self.kind.scale.is_some() {
            set_path(&mut whole, ".spec.replicas", 0.into());
        }
        whole.extend(object.as_object().cloned().unwrap_or_default());
        let mut whole = Value::Object(whole);
        if self.kind.group == "apps" && self.kind.kind == "DaemonSet" {
            let annotations = &mut whole["metadata"]["annotations"];
            annotations["deprecated.daemonset.template.generation"] = "0".into();
        }
        whole
    }
}
