//! Removes the values that must differ between two servers from the output of a client: uids, versions, times, ages, addresses.
//!
//! Words stay words; columns keep their order, but not their width. Must not know clients.

/// Texts that are specific to one side, with their replacements.
#[derive(Debug, Default)]
pub(super) struct Own(Vec<(String, &'static str)>);

// === impl Own ===

impl Own {
    /// Returns the texts in a kubeconfig file that are specific to its server.
    pub(super) fn of(kubeconfig: &str) -> Self {
        let parsed: serde_json::Value =
            serde_saphyr::from_str(kubeconfig).expect("a kubeconfig is YAML");
        let server = parsed["clusters"][0]["cluster"]["server"].as_str();
        let server = server.expect("a kubeconfig names its server");
        let mut own = Self::default();
        own.hide(server, "<server>");
        own.hide(&server.replace("https://", ""), "<address>");
        own
    }

    /// Adds a replacement for a text.
    pub(super) fn hide(&mut self, text: &str, shown: &'static str) {
        self.0.push((text.to_owned(), shown));
    }
}

/// Returns the normalised lines of a text.
pub(super) fn plain(text: &str, own: &Own) -> Vec<String> {
    let mut text = text.to_owned();
    for (from, to) in &own.0 {
        text = text.replace(from, to);
    }
    let shown = text.lines().filter(|text| !is_log(text)).map(line);
    shown.collect()
}

/// Returns whether a line is a log message of Go's klog, such as `E0102 03:04:05.678901 ...`.
fn is_log(line: &str) -> bool {
    let bytes = line.as_bytes();
    bytes.len() > 20
        && b"IWEF".contains(&bytes[0])
        && bytes[1..5].iter().all(u8::is_ascii_digit)
        && bytes[5] == b' '
        && bytes[8] == b':'
}

/// Returns the lines that are not common to both, in order.
pub(super) fn unequal(name: &str, ours: &[String], real: &[String]) -> Vec<String> {
    // The lengths of the longest common subsequences of the tails.
    let mut common = vec![vec![0_usize; real.len() + 1]; ours.len() + 1];
    for one in (0..ours.len()).rev() {
        for two in (0..real.len()).rev() {
            common[one][two] = if ours[one] == real[two] {
                common[one + 1][two + 1] + 1
            } else {
                common[one + 1][two].max(common[one][two + 1])
            };
        }
    }
    let (mut one, mut two, mut found) = (0, 0, Vec::new());
    while one < ours.len() || two < real.len() {
        if one < ours.len() && two < real.len() && ours[one] == real[two] {
            (one, two) = (one + 1, two + 1);
        } else if two == real.len()
            || (one < ours.len() && common[one + 1][two] >= common[one][two + 1])
        {
            found.push(format!("{name} ours {}", ours[one]));
            one += 1;
        } else {
            found.push(format!("{name} real {}", real[two]));
            two += 1;
        }
    }
    found
}

fn line(text: &str) -> String {
    let text = without_dates(&without_versions(text));
    // In a line that starts with a key, a value like an age is data.
    let is_row = !text
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .ends_with(':');
    let indent = text.len() - text.trim_start().len();
    let mut shown = text[..indent].to_owned();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        let is_age = is_row && (is_age(word) || word == "<invalid>");
        shown.push_str(if is_age { "<age>" } else { word });
        rest = tail.trim_start();
        let gap = tail.len() - rest.len();
        shown.push_str(&" ".repeat(gap.min(2)));
    }
    without_uids(&shown)
}

/// Removes the versions in `resourceVersion: "12"` and `"resourceVersion":"12"`.
fn without_versions(text: &str) -> String {
    let key = "resourceVersion";
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(key) {
        let (before, tail) = rest.split_at(at + key.len());
        shown.push_str(before);
        let value = tail.trim_start_matches(['"', ':', ' ', '\\']);
        let digits = value.len() - value.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 {
            shown.push_str(&tail[..tail.len() - value.len()]);
            shown.push_str("<version>");
        }
        rest = if digits > 0 { &value[digits..] } else { tail };
    }
    shown + rest
}

/// Removes recent dates: `2026-01-02T03:04:05Z`, also with fractions, and `Fri, 02 Jan 2026 03:04:05 +0000`.
fn without_dates(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = stamp(rest).or_else(|| written(rest));
        if let Some(length) = length {
            shown.push_str("<time>");
            rest = &rest[length..];
        } else {
            shown.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    shown
}

fn stamp(text: &str) -> Option<usize> {
    let looks = text.starts_with("20") && text.as_bytes().get(10) == Some(&b'T');
    let end = looks.then(|| text.find('Z'))?? + 1;
    is_recent(text.get(..end)?.parse().ok()?).then_some(end)
}

fn written(text: &str) -> Option<usize> {
    let whole = text.get(..31)?;
    if whole.as_bytes()[3] != b',' || !whole.ends_with("+0000") {
        return None;
    }
    let time = jiff::fmt::rfc2822::parse(whole).ok()?;
    is_recent(time.timestamp()).then_some(31)
}

fn is_recent(time: jiff::Timestamp) -> bool {
    let distance = jiff::Timestamp::now().duration_since(time);
    distance.abs().as_hours() < 24
}

fn without_uids(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let found = rest.get(..36).filter(|text| is_uid(text));
        let length = found.map_or(first.len_utf8(), str::len);
        shown.push_str(if found.is_some() {
            "<uid>"
        } else {
            &rest[..length]
        });
        rest = &rest[length..];
    }
    shown
}

fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        14 => byte == b'4',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    })
}

/// Returns whether a word is an age, such as `7s` or `3m2s`.
fn is_age(word: &str) -> bool {
    let mut rest = word;
    let mut parts = 0;
    while !rest.is_empty() {
        let tail = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let Some(after) = tail.strip_prefix(['s', 'm', 'h', 'd']) else {
            return false;
        };
        if tail.len() == rest.len() {
            return false;
        }
        (rest, parts) = (after, parts + 1);
    }
    parts > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_by_table() {
        let now = jiff::Timestamp::now();
        let written = now.strftime("%a, %d %b %Y %H:%M:%S +0000");
        for (text, expected) in [
            ("NAME   DATA   AGE".to_owned(), "NAME  DATA  AGE"),
            ("a      1      3m2s".to_owned(), "a  1  <age>"),
            ("  cpu:    5m".to_owned(), "  cpu:  5m"),
            (
                "  resourceVersion: \"12\"".to_owned(),
                "  resourceVersion: \"<version>\"",
            ),
            (
                format!("at {now}, 2020-01-01T00:00:00Z"),
                "at <time>, 2020-01-01T00:00:00Z",
            ),
            (format!("Created:  {written}"), "Created:  <time>"),
            (
                "uid: 0b2f9b54-1a52-4c2e-9d9e-0a3c2f1b7a11".to_owned(),
                "uid: <uid>",
            ),
        ] {
            assert_eq!(plain(&text, &Own::default()), [expected], "{text}");
        }
    }

    #[test]
    fn lines_that_differ_by_table() {
        let lines = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        for (ours, real, expected) in [
            ("a b c", "a b c", ""),
            ("a c", "a b c", "out real b"),
            ("a x c", "a b c", "out ours x,out real b"),
            ("", "a", "out real a"),
        ] {
            assert_eq!(
                unequal("out", &lines(ours), &lines(real)).join(","),
                expected
            );
        }
    }
}
