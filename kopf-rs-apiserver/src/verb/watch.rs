//! `watch`: a collection followed from a revision, as lines of JSON.
//!
//! Promise: what matches the selector is seen once, in order; bookmarks never run ahead of events.
//! Nothing is computed before it is read. Must not know faults or transports.

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

/// How many changes are taken from the feed at a time.
const BATCH: usize = 64;
/// How often an idle watch hears of the newest revision.
const BOOKMARK: Duration = Duration::from_secs(60);
/// How long a watch lives if the request does not say.
const LIFETIME: Duration = Duration::from_secs(1800);
/// How many seconds a watch may last, a year: what is asked for beyond that could not be added to a moment.
const LONGEST: u64 = 365 * 24 * 3600;

/// A watch that is under way.
#[derive(Debug)]
pub(crate) struct Watch {
    kind: Arc<Kind>,
    /// Who converts what is seen.
    waiting: Option<Waiting>,
    prefix: String,
    selector: Selector,
    form: Form,
    clock: Clock,
    feed: Arc<Feed>,
    woken: Receiver<()>,
    /// Another one of the feed sends this watch away.
    epoch: u64,
    initial: VecDeque<Arc<Stored>>,
    pending: VecDeque<Arc<Change>>,
    position: u64,
    mark_initial_end: bool,
    /// When the next bookmark is due; none are sent where this is absent.
    next_bookmark: Option<Instant>,
    deadline: Instant,
    ended: bool,
    columns_told: bool,
}

/// Something to send.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) text: Bytes,
    /// An event of an object, not a bookmark or an error.
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
    // From any version, the real server takes a watch for one that sends what is there first.
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
        // There is no time; or events are no lists, and the first that cannot be told ends the watch.
        Content::Bytes(Bytes::new())
    } else if !from_now && asked < oldest {
        // A watch that begins too late is one error event.
        Content::Bytes(error_line(&Refusal::too_old(asked, oldest)))
    } else {
        Content::Watch(Box::new(watch))
    };
    Ok(answer)
}

/// The version that a watch is to begin at, where it is in order.
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

/// Whether a request says if it wants what is there first.
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
    // From any version, a watch counts as one that sends what is there first.
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

/// The line of an error event.
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
    /// The next line; `None` when the watch is over.
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

    /// Whether its time is over.
    pub(crate) fn is_expired(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// A line that needs no waiting, except for conversions.
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
            // Until that is known the change stays where it is: whoever waits may give up.
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

    /// A change in the version of the watch.
    async fn in_version(&self, change: Arc<Change>) -> Result<Arc<Change>, String> {
        let Some(waiting) = &self.waiting else {
            return Ok(change);
        };
        let before = match &change.before {
            Some(before) => Some(waiting.view(&self.kind, before).await?),
            None => None,
        };
        let now = match &before {
            // It went as it was.
            Some(before) if change.event == Event::Deleted => {
                Arc::new(self.at_revision(before, change.revision))
            }
            _ => waiting.view(&self.kind, &change.now).await?,
        };
        let (event, revision) = (change.event, change.revision);
        Ok(Arc::new(Change::new(event, revision, now, before)))
    }

    /// The revision up to which nothing is left to send, if nothing is.
    fn caught_up(&self) -> Option<u64> {
        let revision = self.feed.published();
        let rest = self.feed.after(self.position, 1);
        rest.is_ok_and(|rest| rest.is_empty())
            .then_some(revision.max(self.position))
    }

    /// What a change is to this watch: it may be nothing, or a DELETED because the selector no longer matches.
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

    /// A line with a table: the columns are told once.
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

    /// What Go writes of an object of a built-in kind of which only the metadata is set.
    fn whole(&self, object: &Value) -> Value {
        let typed = self.kind.typed();
        let mut whole = typed.map(typed::zero_object).unwrap_or_default();
        // On its way through the internal type, a number that may be absent becomes one that is zero.
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
