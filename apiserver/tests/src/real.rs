//! A real kube-apiserver with its etcd, on free ports, with temporary data.
//!
//! Starts in under two seconds once the programs are built. All tests of the binary share one server; a test that stops it or counts all
//! its requests starts a separate one. No process outlives the test process. There are no nodes, so Pods stay Pending. Must not know
//! operators.

mod keys;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::skip::{Missing, slow};
use crate::toolchain::{Tool, ToolError, tool};
use crate::watchdog::Guarded;
use keys::Keys;

/// The deadline for a server to become ready on a machine that is busy with other tests.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// The controllers of the controller manager, unless a test selects others.
const CONTROLLERS: &[&str] = &[
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "deployment-controller",
    "replicaset-controller",
    "clusterrole-aggregation-controller",
];
/// The number of users without any rights, for tests that grant exactly the rights they need.
const USERS: usize = 256;

/// The reason why no real server is available.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A program could not be built.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// An operation on files, ports or processes failed.
    #[error("starting a kube-apiserver: {0}")]
    Io(#[from] io::Error),
    /// Keys or certificates could not be generated.
    #[error("making keys for a kube-apiserver: {0}")]
    Keys(#[from] keys::KeyError),
    /// A process exited, or was not ready in time.
    #[error("{program} {problem}; it said:\n{output}")]
    NotReady {
        /// The program.
        program: &'static str,
        /// The problem.
        problem: String,
        /// The last lines of its output.
        output: String,
    },
}

impl StartError {
    /// Returns the component that this machine lacks, if that is the reason.
    #[must_use]
    pub fn missing(&self) -> Option<&Missing> {
        match self {
            Self::Tool(ToolError::Missing(missing)) => Some(missing),
            _ => None,
        }
    }
}

/// A running kube-apiserver; dropping it stops everything and removes its data.
#[derive(Debug)]
pub struct RealServer {
    url: String,
    homes: Homes,
    apiserver: Guarded,
    etcd: Guarded,
    controllers: OnceLock<Result<Guarded, StartError>>,
    next_user: AtomicUsize,
}

impl RealServer {
    /// Returns the server that all tests of this process share.
    ///
    /// # Errors
    ///
    /// Returns an error if the server could not be built or started; every caller gets the same error.
    pub fn shared() -> Result<&'static Self, &'static StartError> {
        static SHARED: OnceLock<Result<RealServer, StartError>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// Starts a separate server. Blocks; inside a runtime, call it through `spawn_blocking`.
    ///
    /// # Errors
    ///
    /// Returns an error if a program cannot be built or started, or does not become ready.
    pub fn start() -> Result<Self, StartError> {
        Self::start_audited(true)
    }

    /// Does the same as [`RealServer::start`] without an audit log, which would slow the server down: for comparisons of speed.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`RealServer::start`].
    pub fn start_unaudited() -> Result<Self, StartError> {
        Self::start_audited(false)
    }

    fn start_audited(audited: bool) -> Result<Self, StartError> {
        slow("a real kube-apiserver");
        let (etcd, apiserver) = (tool(Tool::Etcd)?, tool(Tool::ApiServer)?);
        let mut attempt = 0;
        loop {
            attempt += 1;
            match Self::start_once(&etcd, &apiserver, audited) {
                // Another process may bind the free port before our server does.
                Err(StartError::NotReady { .. }) if attempt < 3 => {}
                result => return result,
            }
        }
    }

    fn start_once(etcd: &Path, apiserver: &Path, audited: bool) -> Result<Self, StartError> {
        let homes = Homes::new();
        let [client_port, peer_port, secure_port] = free_ports()?;
        let etcd = spawn_etcd(etcd, &homes.fresh("etcd")?, client_port, peer_port)?;
        let home = homes.fresh("apiserver")?;
        write_credentials(&home, secure_port)?;
        let ports = [client_port, secure_port];
        let apiserver = spawn_apiserver(apiserver, &home, ports, audited)?;
        let mut server = Self {
            url: format!("https://127.0.0.1:{secure_port}"),
            homes,
            apiserver,
            etcd,
            controllers: OnceLock::new(),
            next_user: AtomicUsize::new(1),
        };
        server.until_ready()?;
        Ok(server)
    }

    fn until_ready(&mut self) -> Result<(), StartError> {
        let kubeconfig = self.kubeconfig();
        let (apiserver, etcd) = (&mut self.apiserver, &mut self.etcd);
        aside(async move {
            let client = client_of(&kubeconfig).await.map_err(io::Error::other)?;
            let poll = async {
                let mut pulse = tokio::time::interval(Duration::from_millis(20));
                loop {
                    pulse.tick().await;
                    let request = http::Request::get("/readyz")
                        .body(Vec::new())
                        .map_err(io::Error::other)?;
                    if client
                        .request_text(request)
                        .await
                        .is_ok_and(|text| text == "ok")
                    {
                        return Ok(());
                    }
                    for (program, process) in
                        [("etcd", &mut *etcd), ("kube-apiserver", &mut *apiserver)]
                    {
                        if let Some(status) = process.ended() {
                            let (problem, output) =
                                (format!("ended with {status}"), process.last_words());
                            return Err(StartError::NotReady {
                                program,
                                problem,
                                output,
                            });
                        }
                    }
                }
            };
            let waited = tokio::time::timeout(READY_WITHIN, poll).await;
            waited.unwrap_or_else(|_| {
                let problem = format!("was not ready within {READY_WITHIN:?}");
                Err(StartError::NotReady {
                    program: "kube-apiserver",
                    problem,
                    output: apiserver.last_words(),
                })
            })
        })
    }

    /// Returns the process ids of the API server and of its etcd.
    #[must_use]
    pub fn processes(&self) -> [u32; 2] {
        [self.apiserver.id(), self.etcd.id()]
    }

    /// Returns the address of the server.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the administrator's kubeconfig file.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_of("admin")
    }

    /// Returns the kubeconfig file of a user: `admin`, or one that [`RealServer::restricted_user`] returned.
    #[must_use]
    pub fn kubeconfig_of(&self, user: &str) -> PathBuf {
        self.homes
            .of("apiserver")
            .join(format!("{user}.kubeconfig"))
    }

    /// Returns the name of a user that no other test uses and that has no rights until RBAC objects grant them.
    ///
    /// # Panics
    ///
    /// Panics if all prepared users are taken.
    #[must_use]
    pub fn restricted_user(&self) -> String {
        let number = self.next_user.fetch_add(1, Ordering::Relaxed);
        assert!(
            number <= USERS,
            "all {USERS} users without rights are taken: prepare more"
        );
        format!("user{number}")
    }

    /// Returns a client of a user: `admin`, or one that [`RealServer::restricted_user`] returned.
    ///
    /// # Panics
    ///
    /// Panics if the client cannot be created.
    pub async fn client_of(&self, user: &str) -> kube::Client {
        let client = client_of(&self.kubeconfig_of(user)).await;
        client.unwrap_or_else(|error| panic!("a client of {user}: {error}"))
    }

    /// Runs kubectl as the administrator, and builds it first if necessary.
    ///
    /// # Errors
    ///
    /// Returns an error if kubectl cannot be built or started; a failure of kubectl itself is in the output.
    pub fn kubectl(&self, args: &[&str]) -> Result<Output, StartError> {
        kubectl(&self.kubeconfig(), args)
    }

    /// Starts the controller manager once, with garbage collection, namespaces, deployments and service accounts.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be built or started.
    pub fn controllers(&self) -> Result<(), &StartError> {
        self.these_controllers(CONTROLLERS)
    }

    /// Starts the controller manager with these controllers only, unless it already runs.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be built or started.
    pub fn these_controllers(&self, names: &[&str]) -> Result<(), &StartError> {
        self.controllers
            .get_or_init(|| self.spawn_controllers(names))
            .as_ref()
            .map(|_| ())
    }

    fn spawn_controllers(&self, names: &[&str]) -> Result<Guarded, StartError> {
        let home = self.homes.fresh("controllers")?;
        let [port] = free_ports()?;
        let mut command = Command::new(tool(Tool::ControllerManager)?);
        command
            .arg(format!("--kubeconfig={}", self.kubeconfig().display()))
            .arg(format!("--secure-port={port}"))
            .arg(format!("--cert-dir={}", home.display()))
            .args(["--leader-elect=false", "--bind-address=127.0.0.1"])
            .arg(format!("--controllers={}", names.join(",")));
        Ok(Guarded::spawn(command, &home)?)
    }

    /// Returns all audited requests that have finished, oldest first: `verb`, `requestURI`, `userAgent`, `user`, `responseStatus`.
    ///
    /// # Panics
    ///
    /// Panics if the audit log is not readable.
    #[must_use]
    pub fn audit(&self) -> Vec<Value> {
        self.audit_since(0, "")
    }

    /// Returns the size of the audit log in bytes, as a start for [`RealServer::audit_since`].
    #[must_use]
    pub fn audit_size(&self) -> u64 {
        std::fs::metadata(self.audit_log()).map_or(0, |log| log.len())
    }

    /// Returns the audited requests from byte `start` of the log whose entries contain `word`, such as a path or a name.
    ///
    /// # Panics
    ///
    /// Panics if the audit log is not readable.
    #[must_use]
    pub fn audit_since(&self, start: u64, word: &str) -> Vec<Value> {
        let mut text = String::new();
        let mut log = File::open(self.audit_log()).expect("the audit log is there");
        log.seek(SeekFrom::Start(start))
            .and_then(|_| log.read_to_string(&mut text))
            .expect("the audit log is readable");
        // The last line may be incomplete; a complete line parses.
        text.lines()
            .filter(|line| line.contains(word))
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    fn audit_log(&self) -> PathBuf {
        self.homes.of("apiserver").join("audit.log")
    }
}

/// Runs kubectl against the server of a kubeconfig file, and builds kubectl first if necessary.
///
/// # Errors
///
/// Returns an error if kubectl cannot be built or started. The output contains the failures of kubectl itself.
pub fn kubectl(kubeconfig: &Path, args: &[&str]) -> Result<Output, StartError> {
    let mut command = Command::new(tool(Tool::Kubectl)?);
    Ok(command
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .args(args)
        .output()?)
}

/// Returns a client for the server and user in a kubeconfig file.
pub(crate) async fn client_of(
    kubeconfig: &Path,
) -> Result<kube::Client, Box<dyn std::error::Error + Send + Sync>> {
    Ok(kube::Client::try_from(config_of(kubeconfig).await?)?)
}

/// Does the same as [`client_of`] without credentials, for requests that bring their own.
pub(crate) async fn bare_client_of(
    kubeconfig: &Path,
) -> Result<kube::Client, Box<dyn std::error::Error + Send + Sync>> {
    let mut config = config_of(kubeconfig).await?;
    config.auth_info = kube::config::AuthInfo::default();
    Ok(kube::Client::try_from(config)?)
}

async fn config_of(
    kubeconfig: &Path,
) -> Result<kube::Config, Box<dyn std::error::Error + Send + Sync>> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(file, &options).await?;
    // Do not retry: tests compare the answers that ask the client to retry, too.
    config.default_retry = false;
    Ok(config)
}

/// Runs a future on a separate thread and runtime, so that it works inside and outside of other runtimes.
fn aside<T: Send>(
    future: impl Future<Output = Result<T, StartError>> + Send,
) -> Result<T, StartError> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?
                .block_on(future)
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The parent of one folder per process. The watchdog of a process removes only the folder of that process.
#[derive(Debug)]
struct Homes(PathBuf);

impl Homes {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "kopf-rs-real-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        Self(std::env::temp_dir().join(name))
    }

    fn of(&self, part: &str) -> PathBuf {
        let mut path = self.0.clone().into_os_string();
        path.push(format!("-{part}"));
        path.into()
    }

    fn fresh(&self, part: &str) -> io::Result<PathBuf> {
        let folder = self.of(part);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

/// Returns free ports. Holds all listeners until the last port is known, so that the ports differ.
fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut ports = [0; N];
    let mut held = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

fn spawn_etcd(binary: &Path, home: &Path, client_port: u16, peer_port: u16) -> io::Result<Guarded> {
    let (client, peer) = (
        format!("http://127.0.0.1:{client_port}"),
        format!("http://127.0.0.1:{peer_port}"),
    );
    let mut command = Command::new(binary);
    command
        .arg(format!("--data-dir={}", home.join("data").display()))
        .arg("--unsafe-no-fsync")
        .args([
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
        ])
        .args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
        ])
        .args(["--initial-cluster", &format!("default={peer}")]);
    Guarded::spawn(command, home)
}

fn spawn_apiserver(
    binary: &Path,
    home: &Path,
    [etcd_port, port]: [u16; 2],
    audited: bool,
) -> io::Result<Guarded> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", home.join(name).display());
    let mut command = Command::new(binary);
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{etcd_port}"))
        .arg(format!("--secure-port={port}"))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .args([
            file("cert-dir", "certs"),
            file("tls-cert-file", "server.crt"),
            file("tls-private-key-file", "server.key"),
        ])
        .args([
            file("service-account-key-file", "accounts.pub"),
            file("service-account-signing-key-file", "accounts.key"),
        ])
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(file("token-auth-file", "tokens.csv"))
        .args([
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
        ])
        .arg("--disable-admission-plugins=ServiceAccount")
        // As on OpenShift: a client may set `blockOwnerDeletion` only if it may update the finalizers of the owner.
        .arg("--enable-admission-plugins=OwnerReferencesPermissionEnforcement");
    if audited {
        command
            .arg(file("audit-policy-file", "audit.json"))
            .arg(file("audit-log-path", "audit.log"))
            // Never begins a new file: tests look for requests in this one.
            .arg("--audit-log-maxsize=0");
    }
    Guarded::spawn(command, home)
}

/// Writes the files that the API server reads at start, and one kubeconfig per user.
fn write_credentials(home: &Path, port: u16) -> Result<(), StartError> {
    let keys = Keys::generate()?;
    std::fs::write(home.join("ca.crt"), &keys.authority)?;
    std::fs::write(home.join("server.crt"), &keys.certificate)?;
    std::fs::write(home.join("server.key"), &keys.private_key)?;
    std::fs::write(home.join("accounts.key"), &keys.accounts_private)?;
    std::fs::write(home.join("accounts.pub"), &keys.accounts_public)?;
    let users: Vec<String> = (1..=USERS).map(|number| format!("user{number}")).collect();
    let mut tokens: Vec<String> = users
        .iter()
        .map(|user| format!("{user}-token,{user},{user}"))
        .collect();
    tokens.push("admin-token,admin,admin,system:masters".to_owned());
    std::fs::write(home.join("tokens.csv"), tokens.join("\n"))?;
    for user in users.iter().map(String::as_str).chain(["admin"]) {
        std::fs::write(
            home.join(format!("{user}.kubeconfig")),
            kubeconfig(home, port, user).to_string(),
        )?;
    }
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
        "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}],
    });
    Ok(std::fs::write(home.join("audit.json"), policy.to_string())?)
}

fn kubeconfig(home: &Path, port: u16, user: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "certificate-authority": home.join("ca.crt"),
        }}],
        "users": [{"name": user, "user": {"token": format!("{user}-token")}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
    })
}
