//! The example `MyIngress` with a simulated cloud: the load balancer is created once despite a crash, then moved, refused, deleted.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use kopf_rs_tests::{Package, Program, TestCluster, python_for, scenarios};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::cli::{self, PATIENCE, root};

scenarios! {
    a_load_balancer_lives_and_dies_with_its_object [tcp real];
    requests_that_the_cloud_refuses_are_retried [tcp real];
}

const KIND: &str = "myingresses";

async fn a_load_balancer_lives_and_dies_with_its_object(cluster: TestCluster) {
    let Some(cloud) = Cloud::start().await else {
        return;
    };
    cluster.apply(&read("crd.yaml")).await;
    let subnets = cloud.subnets().await;
    let object = read("example-ingress.yaml")
        .replace("namespace: default", &format!("namespace: {}", cluster.namespace()))
        .replace("subnet-1, subnet-2", &subnets[..2].join(", "));
    cluster.apply(&object).await;

    // Kill the operator after the cloud has created the load balancer, and before the operator receives the response.
    let silent = Wire::to(cloud.port, false).await;
    let mut first = start(&cluster, silent.port);
    silent.heard.fallen.notified().await;
    first.signal("KILL").await;
    first.ended().await;
    let key = silent.key();
    let before = cluster.get(KIND, "example-ingress").await.expect("it is there");
    assert!(before["status"]["alb"].is_null(), "{before:#}");
    assert_eq!(cloud.balancers().await.len(), 1);

    // The next process repeats the request with the same key.
    let heard = Wire::to(cloud.port, true).await;
    let mut second = start(&cluster, heard.port);
    let handled = cluster
        .until("it has its address", KIND, "example-ingress", |object| {
            object.is_some_and(|it| it["status"]["create_myingress"]["alb-arn"].is_string())
        })
        .await;
    let made = cloud.balancers().await;
    assert_eq!(made.len(), 1, "the same one: {made:?}");
    assert_eq!(heard.key(), key);
    let status = &handled["status"];
    assert_eq!(status["alb"]["arn"], json!(made[0]));
    assert_eq!(status["create_myingress"]["alb-arn"], json!(made[0]));
    assert!(status["alb"]["dns"].to_string().contains("example-ingress-alb"));

    moves(&cluster, &cloud, &subnets, &second).await;

    cluster.delete(KIND, "example-ingress").await;
    cluster.until("it is gone", KIND, "example-ingress", |object| object.is_none()).await;
    assert_eq!(cloud.balancers().await, Vec::<String>::new());
    second.signal("TERM").await;
    assert_eq!(second.ended().await.code(), Some(0));
}

/// Checks that a change of the object moves the load balancer to other subnets.
async fn moves(cluster: &TestCluster, cloud: &Cloud, subnets: &[String], program: &Program) {
    let elsewhere = json!({"spec": {"subnets": subnets[1..3]}});
    cluster.patch(KIND, "example-ingress", &elsewhere).await;
    told(program, &format!("is in {}.", subnets[1..3].join(", "))).await;
    let described = cloud.ask("elasticloadbalancing", "DescribeLoadBalancers").await;
    assert!(described.contains(&subnets[2]) && !described.contains(&subnets[0]), "{described}");
}

async fn requests_that_the_cloud_refuses_are_retried(cluster: TestCluster) {
    let Some(cloud) = Cloud::start().await else {
        return;
    };
    cluster.apply(&read("crd.yaml")).await;
    let place = format!("namespace: {}", cluster.namespace());
    let program = start(&cluster, cloud.port);
    // These subnets do not exist.
    cluster.apply(&read("example-ingress.yaml").replace("namespace: default", &place)).await;
    let line = told(&program, "Handler 'create_myingress' failed temporarily").await;
    assert!(line.contains("subnet-1"), "{line}");
    cluster.apply(&read("missing-subnets.yaml").replace("namespace: default", &place)).await;
    told(&program, "Handler 'create_myingress' failed permanently: spec.subnets is required.").await;
    let waiting = cluster.get(KIND, "example-ingress").await.expect("it is there");
    let annotations = waiting["metadata"]["annotations"].to_string();
    assert!(annotations.contains(r#"\"retries\":1"#), "{annotations}");
    assert_eq!(cloud.balancers().await, Vec::<String>::new());
}

fn read(file: &str) -> String {
    let path = root().join("examples/myingress").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Starts the operator, with its cloud at a local port.
fn start(cluster: &TestCluster, port: u16) -> Program {
    let kubeconfig = cluster.kubeconfig().to_str().expect("an ASCII path");
    let flags = ["--kubeconfig", kubeconfig, "-n", cluster.namespace()];
    let mut command = cli::operator("myingress", &flags);
    command
        .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"))
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test");
    Program::start(command, PATIENCE)
}

async fn told(program: &Program, text: &str) -> String {
    program.lines().until(text, |line| line.contains(text)).await
}

/// Moto, which simulates AWS with load balancers and subnets.
struct Cloud {
    _server: Program,
    port: u16,
}

impl Cloud {
    async fn start() -> Option<Self> {
        let python = tokio::task::spawn_blocking(|| python_for("myingress", Package::Moto));
        let mut command = Command::new(python.await.expect("the installation does not panic")?);
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]);
        let server = Program::start(command, PATIENCE);
        let mark = "Running on http://127.0.0.1:";
        let line = server.lines().until("of the port", |line| line.contains(mark)).await;
        let port = line.split(mark).nth(1).and_then(|rest| rest.trim().parse().ok());
        Some(Self { _server: server, port: port.unwrap_or_else(|| panic!("no port in {line}")) })
    }

    /// Sends a request without parameters, and returns the response.
    async fn ask(&self, service: &str, action: &str) -> String {
        let version = if service == "ec2" { "2016-11-15" } else { "2015-12-01" };
        let body = format!("Action={action}&Version={version}");
        let request = format!(
            "POST / HTTP/1.0\r\nHost: {service}.us-east-1.amazonaws.com\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request, \
             SignedHeaders=host, Signature=0\r\n\r\n{body}",
            body.len(),
        );
        let mut stream = connect(self.port).await;
        stream.write_all(request.as_bytes()).await.expect("the cloud listens");
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer).await;
        read.expect("the cloud answers");
        answer
    }

    async fn subnets(&self) -> Vec<String> {
        texts(&self.ask("ec2", "DescribeSubnets").await, "subnetId")
    }

    async fn balancers(&self) -> Vec<String> {
        texts(&self.ask("elasticloadbalancing", "DescribeLoadBalancers").await, "LoadBalancerArn")
    }
}

async fn connect(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).await.expect("somebody listens")
}

/// Returns the texts of all elements with a name.
fn texts(xml: &str, element: &str) -> Vec<String> {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let text = |rest: &str| rest.split(&close).next().unwrap_or_default().to_owned();
    xml.split(&open).skip(1).map(text).collect()
}

/// A proxy in front of the cloud that creates a load balancer once. It refuses a second one with the same name, as AWS does but moto does
/// not.
struct Wire {
    port: u16,
    heard: Arc<Heard>,
}

/// The observed requests of a proxy.
struct Heard {
    /// True if the name is taken; otherwise the proxy stops forwarding responses after a load balancer has been created.
    is_taken: bool,
    fallen: Notify,
    /// The attempt keys of the requests that create a load balancer.
    keys: Mutex<Vec<String>>,
}

impl Wire {
    async fn to(cloud: u16, is_taken: bool) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("a port").port();
        let heard = Arc::new(Heard { is_taken, fallen: Notify::new(), keys: Mutex::default() });
        let told = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(wire(client, connect(cloud).await, Arc::clone(&told)));
            }
        });
        Self { port, heard }
    }

    /// Returns the key of the only request that was to create a load balancer.
    fn key(&self) -> String {
        let keys = self.heard.keys.lock().expect("no panics here");
        assert_eq!(keys.len(), 1, "{keys:?}");
        keys[0].clone()
    }
}

/// Returns the value of the tag with the attempt key in the body of a request.
fn key_in(request: &str) -> Option<String> {
    let (_, rest) = request.split_once("Key=demo.rtfm.co.ua%2Fattempt&")?;
    let (_, value) = rest.split_once("Value=")?;
    Some(value.split('&').next().unwrap_or(value).to_owned())
}

/// AWS's response to a request for a second load balancer with the same name.
const TAKEN: &str = "<ErrorResponse xmlns=\"http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/\"><Error><Type>Sender</Type>\
                     <Code>DuplicateLoadBalancerName</Code><Message>It is there.</Message></Error><RequestId>1</RequestId></ErrorResponse>";

async fn wire(client: TcpStream, cloud: TcpStream, heard: Arc<Heard>) {
    let (mut from_client, to_client) = client.into_split();
    let (mut from_cloud, mut to_cloud) = cloud.into_split();
    let to_client = tokio::sync::Mutex::new(to_client);
    let made = AtomicBool::new(false);
    let asking = async {
        let mut chunk = [0; 4096];
        while let Ok(size @ 1..) = from_client.read(&mut chunk).await {
            let sent = &chunk[..size];
            let text = String::from_utf8_lossy(sent);
            if text.contains("Action=CreateLoadBalancer") {
                heard.keys.lock().expect("no panics here").extend(key_in(&text));
                if heard.is_taken {
                    let size = TAKEN.len();
                    let answer = format!(
                        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/xml\r\nContent-Length: {size}\r\n\r\n{TAKEN}"
                    );
                    let told = to_client.lock().await.write_all(answer.as_bytes()).await;
                    told.expect("the operator listens");
                    continue;
                }
                made.store(true, Ordering::Relaxed);
            }
            if to_cloud.write_all(sent).await.is_err() {
                return;
            }
        }
    };
    let answering = async {
        let mut chunk = [0; 4096];
        while let Ok(size @ 1..) = from_cloud.read(&mut chunk).await {
            if made.load(Ordering::Relaxed) {
                heard.fallen.notify_one();
                std::future::pending::<()>().await;
            }
            if to_client.lock().await.write_all(&chunk[..size]).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(asking, answering);
}
