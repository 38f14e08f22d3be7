//! A server for kubectl: `cargo run -p kopf-rs-apiserver --example serve -- KUBECONFIG [PORT]`, until Ctrl+C.

use std::error::Error;
use std::net::Ipv4Addr;

use kopf_rs_apiserver::ApiServer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: serve KUBECONFIG [PORT]")?;
    let port: u16 = args.next().map_or(Ok(0), |port| port.parse())?;
    let listening = ApiServer::new()
        .listen((Ipv4Addr::LOCALHOST, port).into())
        .await?;
    std::fs::write(&path, listening.kubeconfig())?;
    tokio::signal::ctrl_c().await?;
    listening.shutdown().await;
    Ok(())
}
