//! Gives tests access to the admission handlers of an operator that does not run.

use std::sync::Arc;

use crate::admission::route;
use crate::engine::admission::Reviewer;
use crate::engine::invoke::{HandlerGroup, Invoker};
use crate::handler::cause::CauseContext;
use crate::handler::logger::Logger;
use crate::handler::webhook::AdmissionKind;
use crate::operator::run::{Operator, OperatorError};
use crate::operator::settings::StartupSettings;
use crate::rt::clock::Clock;

/// The reviewer, and the paths of the webhooks in the order of declaration.
pub(crate) struct Reviews {
    pub(crate) reviewer: Reviewer,
    pub(crate) paths: Vec<(AdmissionKind, String)>,
}

impl Operator {
    /// Returns the admission handlers, with all values that the operator was given. There is no client.
    pub(crate) fn reviews(self) -> Result<Reviews, OperatorError> {
        self.check()?;
        let settings = StartupSettings::new(self.settings);
        let workers = settings.get().execution.max_workers;
        let mut extensions = self.extensions;
        let endpoints = self.endpoints;
        endpoints.checked(self.registry.handlers(), &mut extensions)?;
        extensions.insert(settings);
        extensions.insert(self.registry.indices());
        let handlers = self.registry.handlers().to_vec();
        let mut paths = Vec::new();
        for handler in &handlers {
            let admission = handler.admission();
            let path = admission.map(|kind| (kind, route::path(kind, &handler.id)));
            let is_news = |it: &(AdmissionKind, String)| !paths.contains(it);
            paths.extend(path.filter(is_news));
        }
        let group = HandlerGroup {
            handlers,
            invoker: Arc::new(Invoker::new(Clock::start(), workers, self.handlers_on)),
            context: CauseContext {
                logger: Logger::new(),
                memo: self.memo,
                extensions: Arc::new(extensions),
            },
        };
        let reviewer = Reviewer::new(group, false);
        Ok(Reviews { reviewer, paths })
    }
}
