//! `--manifests`: prints everything that installs the operator, as YAML.
//!
//! Without `--kubeconfig` and `--context`, the kinds come from the Rust types of handlers, from files, and from Kubernetes itself: an API
//! server in this process serves them. This module does not know which objects an operator needs.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use kopf_rs_flags::manifests::Format;
use kopf_rs_flags::{Flags, Scope, shell_word};
use serde_json::{Value, json};

use crate::cli::connecting::{checked_connection, complete, options};
use crate::cli::embedded;
use crate::cli::manifests;
use crate::cli::observing;
use crate::cli::packaging::chart::{self, Chart, RELEASE, SETTINGS, WATCHED, without_templates};
use crate::cli::packaging::folder::{self, Texts, is_generated};
use crate::cli::packaging::values::Values;
use crate::cli::packaging::{File, kustomize, text, too_large, yaml};
use crate::cli::yaml::parse;
use crate::cluster::{Client, Cluster};
use crate::object::resource::Resource;
use crate::operator::admission::policies::served_definitions;
use crate::operator::compatibility::{Breakage, breakages};
use crate::operator::deployment::Resources;
use crate::operator::run::Operator;
use crate::operator::run::manifests::definitions::check_names;
use crate::operator::run::manifests::{Install, Manifests};
use crate::operator::scope::Patterns;
use crate::operator::settings::configuration::variables;

/// Creates the operator for these namespaces.
type Create<'a> = &'a dyn Fn(&Scope) -> Result<Operator, Box<dyn Error>>;

/// The operator whose manifests are printed or applied.
pub(super) struct Printing<'a> {
    pub(super) flags: &'a Flags,
    pub(super) scope: &'a Scope,
    /// The arguments of the program in its Pod, except for those that select the namespaces.
    pub(super) args: Vec<String>,
    /// The version of the program.
    pub(super) version: &'a str,
    pub(super) operator: Create<'a>,
}

/// Prints the objects in the order in which they are to be applied, or writes them into files.
pub(super) fn print(printing: &Printing<'_>) -> Result<ExitCode, Box<dyn Error>> {
    let flags = &printing.flags.manifests;
    if let Some(folder) = &flags.observed {
        return printing.observed(folder);
    }
    let objects = printing.objects()?;
    let is_server_side = !too_large(&objects).is_empty();
    for (name, size) in too_large(&objects) {
        eprintln!(
            "The definition {name} has {size} bytes. `kubectl apply` stores each object in an annotation, which must not have so many: use \
             `kubectl apply --server-side`."
        );
    }
    let found = flags.folder.as_deref().map(folder::read).transpose()?.unwrap_or_default();
    let broken = printing.broken(&objects, &found)?;
    let (files, name) = match flags.format() {
        Format::Yaml => (yaml(&objects)?, String::new()),
        Format::Kustomize => (kustomize(&objects)?, String::new()),
        Format::Helm => printing.chart(&objects)?,
    };
    if flags.check {
        let differing = flags.folder.as_deref().map(|it| folder::differences(it, &files, &found));
        return Ok(checked(&differing.unwrap_or_default(), &broken));
    }
    for breakage in broken {
        eprintln!("warning: this breaks stored objects: {breakage}");
    }
    let Some(folder) = &flags.folder else {
        std::io::stdout().write_all(text(&objects)?.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let (written, removed) = folder::write(folder, &files, &found)?;
    let next = next_command(flags.format(), folder, &name, is_server_side);
    let text = format!("{}: {written} files written, {removed} removed\nnext: {next}\n", folder.display());
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Reports the outcome of `--check`.
fn checked(differing: &[String], broken: &[Breakage]) -> ExitCode {
    for breakage in broken {
        eprintln!("{breakage}");
    }
    if !broken.is_empty() {
        eprintln!(
            "error: these changes of definitions break stored objects: undo them, or keep the old version and add a new one with a conversion"
        );
    }
    for line in differing {
        eprintln!("{line}");
    }
    // Does not advise to write the files then, because that would replace the old definitions, with which --check compares.
    match (differing.is_empty(), broken.is_empty()) {
        (true, _) => {}
        (false, true) => eprintln!(
            "error: the files differ from the code and the flags: run the same command without --check, which writes them"
        ),
        (false, false) => eprintln!(
            "error: the files also differ from the code and the flags: first correct the changes of definitions above"
        ),
    }
    if differing.is_empty() && broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the command that installs the files.
fn next_command(format: Format, folder: &Path, name: &str, is_server_side: bool) -> String {
    let folder = shell_word(folder);
    let apply = if is_server_side { "kubectl apply --server-side" } else { "kubectl apply" };
    match format {
        Format::Yaml => format!("{apply} -f {folder}"),
        Format::Kustomize => format!("{apply} -k {folder}"),
        Format::Helm => {
            format!("helm upgrade --install {name} {folder} --namespace {name} --create-namespace")
        }
    }
}

impl Printing<'_> {
    /// Returns the objects for the flags of the command line.
    pub(super) fn objects(&self) -> Result<Vec<Value>, Box<dyn Error>> {
        let mut install = self.install()?;
        install.args.splice(0..0, scope_args(self.scope));
        self.objects_of(self.scope, install)
    }

    fn install(&self) -> Result<Install, Box<dyn Error>> {
        let wanted = &self.flags.manifests;
        Ok(Install {
            namespace: wanted.install_namespace.clone(),
            image: wanted.image.clone(),
            replicas: wanted.replicas,
            args: self.args.clone(),
            variables: variables(),
            settings: settings(self.flags)?,
            definitions: Vec::new(),
            is_monitored: wanted.pod_monitor,
            has_cert_manager: wanted.cert_manager,
            resources: Resources { requests: wanted.requests.clone(), limits: wanted.limits.clone() },
        })
    }

    /// Compares the permissions with the recorded requests.
    fn observed(&self, folder: &Path) -> Result<ExitCode, Box<dyn Error>> {
        let declared = (self.operator)(self.scope)?.declared_rights();
        let printed = self.printed(self.scope, self.install()?)?;
        observing::report(folder, &printed.rights, &declared)
    }

    /// Returns the objects for an operator of these namespaces.
    fn objects_of(&self, scope: &Scope, install: Install) -> Result<Vec<Value>, Box<dyn Error>> {
        Ok(self.printed(scope, install)?.objects)
    }

    fn printed(&self, scope: &Scope, mut install: Install) -> Result<Manifests, Box<dyn Error>> {
        let operator = || (self.operator)(scope);
        install.definitions = operator()?.definitions()?;
        let files = manifests::read(&self.flags.cluster.apply)?.into_iter().map(|it| it.object);
        install.definitions.extend(files.filter(|it| it["kind"] == "CustomResourceDefinition"));
        check_names(&install.definitions)?;
        let printed = complete(async {
            let client = client(self.flags, &install.definitions).await?;
            let printed = operator()?.manifests(client.clone(), install.clone()).await?;
            if printed.undefined.is_empty() || self.flags.installing.task().is_none() {
                return Ok(printed);
            }
            define_others(self.flags, &client, &install.definitions).await?;
            Ok(operator()?.manifests(client, install).await?)
        })?;
        if !printed.undefined.is_empty() {
            return Err(undefined(&printed.undefined, asks_server(self.flags)).into());
        }
        Ok(printed)
    }

    /// Returns the changes of definitions that break stored objects, since the definitions of the cluster that flags select, or of the files.
    fn broken(&self, objects: &[Value], found: &Texts) -> Result<Vec<Breakage>, Box<dyn Error>> {
        let flags = &self.flags.manifests;
        let is_definition = |it: &&Value| it["kind"] == "CustomResourceDefinition";
        let definitions = || objects.iter().filter(is_definition);
        let former = if flags.check && self.flags.cluster.connection.is_given() {
            let names: Vec<&str> = definitions().filter_map(|it| it["metadata"]["name"].as_str()).collect();
            complete(async {
                let connection = checked_connection(&options(&self.flags.cluster.connection)).await?;
                Ok(served_definitions(&Cluster::new(connection.client), &names).await?)
            })?
        } else {
            let defines = |it: &str| is_generated(it) && it.contains("kind: CustomResourceDefinition");
            let texts = found.iter().filter(|(_, it)| defines(it));
            let parsed = texts.map(|(path, text)| {
                let file = flags.folder.as_deref().unwrap_or(Path::new("")).join(path);
                parse(&without_templates(text)).map_err(|error| {
                    format!(
                        "{} is not YAML: {error}\nexpected the former definition, with which the present one is compared: restore the file, or \
                         delete it to go on without this comparison",
                        file.display()
                    )
                })
            });
            parsed.collect::<Result<Vec<_>, _>>()?.concat()
        };
        let former = |new: &Value| {
            let is_same =
                |it: &&Value| is_definition(it) && it["metadata"]["name"] == new["metadata"]["name"];
            former.iter().find(is_same)
        };
        let compared = definitions().filter_map(|new| Some(breakages(former(new)?, new)));
        Ok(compared.flatten().collect())
    }

    /// Returns the files of a chart, and its name. `printed` are the objects for the flags of the command line.
    fn chart(&self, printed: &[Value]) -> Result<(Vec<File>, String), Box<dyn Error>> {
        let names = match self.scope {
            Scope::Unsaid | Scope::Cluster => Some(Vec::new()),
            Scope::Namespaces(patterns) => {
                let patterns = Patterns::parse(patterns)?;
                patterns.are_names().then(|| patterns.literals().map(str::to_owned).collect::<Vec<_>>())
            }
        };
        if let Some(namespace) = (self.operator)(self.scope)?.service_namespace() {
            return Err(format!(
                "the setting `admission.server` names a Service in the namespace {namespace}, and Helm selects the namespace of a chart: \
                 expected no such setting, because the chart itself sets it"
            )
            .into());
        }
        // One Pod is a value of the chart; the templates need the objects for several, if several are possible.
        let install = || -> Result<Install, Box<dyn Error>> {
            let install = self.install()?;
            let replicas = install.replicas.filter(|it| *it > 1);
            let settings = Some(SETTINGS.to_owned());
            Ok(Install { namespace: Some(RELEASE.to_owned()), replicas, settings, ..install })
        };
        let is_fixed = names.is_none();
        let one = Scope::Namespaces(vec![WATCHED.to_owned()]);
        let everywhere = if is_fixed { self.scope } else { &Scope::Unsaid };
        let everywhere = self.objects_of(everywhere, install()?)?;
        let in_one = if is_fixed { None } else { Some(self.objects_of(&one, install()?)?) };
        let deployment = printed.iter().find(|it| it["kind"] == "Deployment");
        let deployment = deployment.ok_or("there is no Deployment to make a chart of")?;
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let replicas = deployment["spec"]["replicas"].as_u64().and_then(|it| u16::try_from(it).ok());
        let name = deployment["metadata"]["name"].as_str().unwrap_or_default();
        let chart_name = name.replace('.', "-");
        let settings = self.install()?.settings.map(|it| parse(&it)).transpose()?;
        let settings = settings.and_then(|it| it.into_iter().next()).filter(|it| !it.is_null());
        let chart = Chart {
            name: &chart_name,
            version: self.version,
            scope_args: if is_fixed || *self.scope == Scope::Cluster {
                scope_args(self.scope)
            } else {
                Vec::new()
            },
            values: Values {
                image: container["image"].as_str().unwrap_or_default(),
                replicas: replicas.unwrap_or(1),
                shares_lease: everywhere.iter().any(|it| it["kind"] == "PodDisruptionBudget"),
                resources: container["resources"].clone(),
                namespaces: names,
                settings: settings.unwrap_or_else(|| json!({})),
            },
            everywhere,
            in_one,
        };
        Ok((chart::files(chart)?, chart_name.clone()))
    }
}

/// Returns the arguments that select the namespaces.
fn scope_args(scope: &Scope) -> Vec<String> {
    match scope {
        Scope::Unsaid => Vec::new(),
        Scope::Cluster => vec!["--all-namespaces".to_owned()],
        Scope::Namespaces(patterns) => patterns.iter().map(|it| format!("--namespace={it}")).collect(),
    }
}

/// Returns the text of the settings file.
fn settings(flags: &Flags) -> std::io::Result<Option<String>> {
    let file = flags.settings.settings.as_ref().filter(|it| !it.as_os_str().is_empty());
    file.map(std::fs::read_to_string).transpose()
}

/// Returns whether the server of the flags has the kinds already. An installation brings them, and names the server only as its target.
fn asks_server(flags: &Flags) -> bool {
    flags.cluster.connection.is_given() && flags.installing.task().is_none()
}

/// Returns a client of a server that serves the kinds of the operator.
async fn client(flags: &Flags, definitions: &[Value]) -> Result<Client, Box<dyn Error>> {
    if asks_server(flags) {
        return Ok(checked_connection(&options(&flags.cluster.connection)).await?.client);
    }
    let client = embedded::in_memory()?;
    let cluster = Cluster::new(client.clone());
    for definition in definitions {
        let applied = cluster.apply_manifest(definition).await;
        applied.map_err(|error| {
            format!("the definition {} is refused: {error}", definition["metadata"]["name"])
        })?;
    }
    Ok(client)
}

/// Defines the kinds of other projects, which the cluster of an installation serves, on a server in this process.
async fn define_others(flags: &Flags, client: &Client, own: &[Value]) -> Result<(), Box<dyn Error>> {
    let target = Cluster::new(checked_connection(&options(&flags.cluster.connection)).await?.client);
    let cluster = Cluster::new(client.clone());
    let kind = Resource::built_in("apiextensions.k8s.io", "CustomResourceDefinition", false);
    for definition in target.list_kept(&kind, "").await? {
        let name = &definition["metadata"]["name"];
        if own.iter().any(|it| it["metadata"]["name"] == *name) {
            continue;
        }
        let definition = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": name}, "spec": definition["spec"],
        });
        // A kind that cannot be defined here stays undefined, and is named if a handler needs it.
        if let Err(error) = cluster.apply_manifest(&definition).await {
            tracing::debug!("The definition {name} cannot be read: {error}");
        }
    }
    Ok(())
}

/// Returns the error for kinds that nothing defines.
fn undefined(kinds: &[String], asks_server: bool) -> String {
    let kinds = kinds.join(", ");
    if asks_server {
        return format!(
            "the server does not serve {kinds}: create the definitions first, or fix the names in the handlers"
        );
    }
    format!(
        "nothing defines {kinds}: expected a Rust type that derives `kube::CustomResource` in the attribute of a handler, such as \
         `#[on_create(MyApp)]`, or a file with the definition (--apply crd.yaml); for manifests, --kubeconfig or --context asks a server that has it"
    )
}
