//! `--manifests`: the flags that select what installs an operator, and where it is written.
//!
//! This module must not know how manifests are made.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::{ConnectionFlags, HealthFlags};

/// `--manifests` and its siblings.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
#[command(next_help_heading = "Printing manifests")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct ManifestsFlags {
    /// Print everything that installs the operator, for `kubectl apply -f -`, and exit: the definitions of Rust types and of --apply, the
    /// service account with the permissions that the handlers need, webhook configurations, policies, and a Deployment with the other
    /// flags of this command line. Asks no server unless --kubeconfig or --context is given. With -o DIR, writes files instead
    #[arg(long, conflicts_with_all = ["embedded", "once"])]
    pub manifests: bool,
    /// With --manifests, --install or --upgrade, the image of the operator [default: the operator's name]
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    pub image: Option<String>,
    /// With --manifests, --install, --upgrade or --uninstall, the namespace in which the operator itself runs [default: the operator's name]
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    pub install_namespace: Option<String>,
    /// With --manifests, --install or --upgrade, the number of Pods; more than one Pod needs --lease [default: 1, or 2 with --lease]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub replicas: Option<u16>,
    /// With --manifests, --install or --upgrade, what a Pod requests [default: cpu=10m,memory=64Mi, with the limit memory=256Mi]
    #[arg(long, value_name = "NAME=QUANTITY", value_delimiter = ',', value_parser = quantity)]
    pub requests: Vec<(String, String)>,
    /// With --manifests, --install or --upgrade, the limits of a Pod, such as memory=256Mi
    #[arg(long, value_name = "NAME=QUANTITY", value_delimiter = ',', value_parser = quantity)]
    pub limits: Vec<(String, String)>,
    /// With --metrics and one of --manifests, --install or --upgrade, add a `PodMonitor`, by which the Prometheus operator collects metrics
    #[arg(long)]
    pub pod_monitor: bool,
    /// With --manifests, --install or --upgrade, let cert-manager create and renew the certificate of webhooks: add an Issuer and a Certificate
    #[arg(long)]
    pub cert_manager: bool,
    /// With --manifests, the form of the output; all but yaml need -o DIR [default: yaml]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// With --manifests, write nothing, and exit with 1 if the files of -o DIR differ, or if a definition has changed in a way that breaks
    /// stored objects: compared with the files of -o DIR, or with the cluster of --kubeconfig or --context
    #[arg(long)]
    pub check: bool,
    /// With --manifests, compare the permissions with the requests that tests have recorded in this folder (`KOPF_RS_OBSERVE`), and print the
    /// difference instead of the manifests; `kopf-rs manifests --observe` does both
    #[arg(long, value_name = "DIR", conflicts_with_all = ["check", "format", "output"])]
    pub observed: Option<PathBuf>,
    /// The folder of `-o`, which [`Flags::checked`](crate::Flags::checked) fills in.
    #[arg(skip)]
    pub folder: Option<PathBuf>,
}

/// `--format`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For `kubectl apply -f`
    #[default]
    Yaml,
    /// For `kubectl apply -k`
    Kustomize,
    /// A chart for `helm install`
    Helm,
}

// === impl ManifestsFlags ===

impl ManifestsFlags {
    /// Returns the form of the output.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format.unwrap_or_default()
    }

    /// Returns the problem of a combination of flags. `installs`: the manifests are applied instead of printed.
    pub(crate) fn problem(
        &self,
        installs: bool,
        connection: &ConnectionFlags,
        health: &HealthFlags,
    ) -> Option<String> {
        let printing = [
            ("--format", self.format.is_some()),
            ("--check", self.check),
            ("--observed", self.observed.is_some()),
        ];
        if let Some((flag, _)) = printing.iter().find(|(_, is_given)| *is_given && !self.manifests) {
            return Some(format!("{flag} has an effect only with --manifests: expected --manifests"));
        }
        let shaping = [
            ("--image", self.image.is_some()),
            ("--install-namespace", self.install_namespace.is_some()),
            ("--replicas", self.replicas.is_some()),
            ("--requests", !self.requests.is_empty()),
            ("--limits", !self.limits.is_empty()),
            ("--pod-monitor", self.pod_monitor),
            ("--cert-manager", self.cert_manager),
        ];
        let has_use = self.manifests || installs;
        if let Some((flag, _)) = shaping.iter().find(|(_, is_given)| *is_given && !has_use) {
            return Some(format!(
                "{flag} has an effect only with --manifests, --install, --upgrade or --uninstall: expected one of these flags"
            ));
        }
        if self.pod_monitor && health.metrics.is_none() {
            return Some(
                "--pod-monitor collects the metrics of the operator: expected --metrics HOST:PORT, such as --metrics 0.0.0.0:9090"
                    .to_owned(),
            );
        }
        if self.check && self.folder.is_none() && !connection.is_given() {
            return Some(
                "--check compares with files or with a cluster: expected -o DIR, --kubeconfig or --context"
                    .to_owned(),
            );
        }
        let format = self.format();
        if format != Format::Yaml && self.folder.is_none() {
            let name = format.to_possible_value().map(|it| it.get_name().to_owned()).unwrap_or_default();
            return Some(format!(
                "--format {name} consists of several files: expected -o DIR, the folder for them"
            ));
        }
        if let (Format::Helm, Some(namespace)) = (format, &self.install_namespace) {
            return Some(format!(
                "--install-namespace is {namespace}, and Helm selects the namespace of a chart: expected no --install-namespace, but \
                 `helm install --namespace {namespace} --create-namespace`"
            ));
        }
        None
    }
}

/// Validates the name of an image, as far as a mistake in it is certain.
fn image(text: &str) -> Result<String, String> {
    let is_fit = |it: char| it.is_ascii_alphanumeric() || "-_./:@[]".contains(it);
    if text.starts_with(|it: char| it.is_ascii_alphanumeric() || it == '[') && text.chars().all(is_fit) {
        return Ok(text.to_owned());
    }
    Err("expected a letter or digit, then letters, digits or -_./:@, such as registry.example.com/my-operator:1.0".to_owned())
}

/// Parses `NAME=QUANTITY`.
fn quantity(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, quantity))
            if !name.is_empty() && quantity.starts_with(|it: char| it.is_ascii_digit()) =>
        {
            Ok((name.to_owned(), quantity.to_owned()))
        }
        _ => Err("expected NAME=QUANTITY, such as cpu=10m or memory=64Mi".to_owned()),
    }
}

/// Validates the name of a namespace.
fn namespace(text: &str) -> Result<String, String> {
    let is_of_a_label = |it: u8| matches!(it, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let is_label = text.bytes().all(is_of_a_label) && !text.starts_with('-') && !text.ends_with('-');
    if is_label && (1..=63).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err("expected at most 63 lowercase letters, digits and dashes, such as my-operator".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_the_letters_of_a_reference() {
        for fit in ["a", "a:1", "r.example:5000/team/a_b-c:1.0", "a@sha256:00", "[fd00::1]:5000/a"] {
            assert!(image(fit).is_ok(), "{fit}");
        }
        for wrong in ["", "a b", "a:1\n", "/a", "$IMAGE"] {
            assert!(image(wrong).is_err(), "{wrong}");
        }
    }
}
