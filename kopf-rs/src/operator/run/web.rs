//! Serves the web page of an operator, which explains objects with the operator's own handlers.

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::{Value, json};

use crate::health::address::Address;
use crate::health::http::Listener;
use crate::health::responder::Responder;
use crate::health::web::{Explain, Shown, listen};
use crate::operator::run::{CheckedOperator, Operator, OperatorError};
use crate::why::question::WhyQuestion;

impl Operator {
    /// Serves a web page at this port of 127.0.0.1: kinds, watches, the queue, running and waiting handlers, recent errors, a graph of
    /// kinds, handlers and children, and for each object its history and the explanation of its state. Port 0 is any free port; the log
    /// has the address. In a cluster, `kubectl port-forward` reaches the page. By default there is none.
    #[must_use]
    pub fn web(mut self, port: u16) -> Self {
        self.endpoints.web = Some(Address::of_web(port));
        self
    }
}

impl CheckedOperator {
    /// Starts to serve the page if it is requested.
    pub(super) fn web_page(
        self: &Arc<Self>,
        responder: &Arc<Responder>,
    ) -> Result<Option<Listener>, OperatorError> {
        let Some(address) = &self.endpoints.web else {
            return Ok(None);
        };
        let operator = self.clone();
        let explain: Explain = Box::new(move |object| {
            let operator = operator.clone();
            async move { operator.explained_object(&object).await }.boxed()
        });
        let handlers = self.handlers.iter().chain(&self.admission_handlers);
        let shown = Shown { responder: responder.clone(), handlers: handlers.cloned().collect(), explain };
        listen(address, shown).map(Some).map_err(OperatorError::Endpoint)
    }

    /// Returns the explanation of an object, named in kubectl's notation, and the last log lines about it; or the problem with the question.
    async fn explained_object(&self, object: &str) -> Value {
        let problem = |error: String| json!({"problem": error});
        let question = match WhyQuestion::parse(object) {
            Ok(question) => question,
            Err(bad) => return problem(bad.to_string()),
        };
        let explained = match self.why(&question).await {
            Ok(explained) => explained,
            Err(error) => return problem(error.to_string()),
        };
        let engine = self.board.as_ref().and_then(|board| board.known().engine.clone());
        let history = engine.map(|it| it.history(&explained.uid)).unwrap_or_default();
        let history = history.iter().map(
            |line| json!({"time": line.at.to_string(), "level": line.level.as_str(), "line": line.line}),
        );
        json!({"explanation": explained.to_json(), "history": history.collect::<Vec<_>>()})
    }
}
