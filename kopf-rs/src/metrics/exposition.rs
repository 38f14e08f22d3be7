//! Negotiates between the two text formats, and derives the older one from `OpenMetrics`.
//!
//! `prometheus-client` writes only `OpenMetrics`. Scrapers that did not request it may treat its counters and its end
//! marker as errors.

use std::fmt::{self, Write};

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `OpenMetrics` 1.0.
    OpenMetrics,
    /// The text format of Prometheus, 0.0.4.
    Plain,
}

impl Format {
    /// Returns the format that the header `Accept` requests: `OpenMetrics` if it is named, and plain text is not
    /// preferred.
    pub(crate) fn accepted(accept: &str) -> Self {
        let (mut open, mut plain) = (0.0_f32, 0.0_f32);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let quality = parts.find_map(|part| part.strip_prefix("q="));
            let quality = quality.map_or(1.0, |it| it.trim().parse().unwrap_or(0.0));
            match &*kind {
                "application/openmetrics-text" => open = open.max(quality),
                "text/plain" => plain = plain.max(quality),
                _ => {}
            }
        }
        if open > 0.0 && open >= plain { Self::OpenMetrics } else { Self::Plain }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Encodes the registries one after the other.
    pub(crate) fn write(self, registries: &[&Registry]) -> Result<String, fmt::Error> {
        let mut text = String::new();
        for registry in registries {
            encode_registry(&mut text, registry)?;
        }
        match self {
            Self::OpenMetrics => {
                encode_eof(&mut text)?;
                Ok(text)
            }
            Self::Plain => plain(&text),
        }
    }
}

/// Converts to the older format, in which types have the names of their samples, and which has no units and no end
/// marker.
fn plain(open: &str) -> Result<String, fmt::Error> {
    let mut text = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if let Some(said) = line.strip_prefix("# HELP ") {
            help = said.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((_, said)) = help.take() {
                writeln!(text, "# HELP {name}{suffix} {said}")?;
            }
            writeln!(text, "# TYPE {name}{suffix} {kind}")?;
        } else if !line.starts_with("# ") {
            writeln!(text, "{line}")?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_sent_on_request() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("Application/OpenMetrics-Text; version=1.0.0, text/plain;q=0.9", Format::OpenMetrics),
            ("application/openmetrics-text;q=0", Format::Plain),
            ("application/openmetrics-text;q=0.1,text/plain", Format::Plain),
            ("text/plain", Format::Plain),
            ("*/*", Format::Plain),
            ("", Format::Plain),
            ("application/openmetrics-text;q=many", Format::Plain),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }

    #[test]
    fn the_older_format_is_made_of_openmetrics() {
        let open = "# HELP a_seconds Of it.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\na_seconds_total{b=\"# EOF\"} 1.5\n\
                    # HELP c Other.\n# TYPE c gauge\nc 2\n# TYPE d info\nd_info{e=\"f\"} 1\n";
        let expected = "# HELP a_seconds_total Of it.\n# TYPE a_seconds_total counter\na_seconds_total{b=\"# EOF\"} 1.5\n\
                        # HELP c Other.\n# TYPE c gauge\nc 2\n# TYPE d_info gauge\nd_info{e=\"f\"} 1\n";
        assert_eq!(plain(open).as_deref(), Ok(expected));
    }
}
