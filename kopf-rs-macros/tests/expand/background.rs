#[daemon("demo.rtfm.co.ua", "v1", "myapps", initial_delay = |cause| 5, cancellation_timeout = 20, retries = 3)]
async fn watch_over(name: &str, stopped: &Stopped, live: Live) -> HandlerResult {
    Ok(())
}

#[timer("myapps", interval = EVERY, sharp, idle = 10, initial_delay = 1.5)]
fn tick(name: &str) {}

#[timer("myapps", schedule = "0 3 * * *", zone = "Europe/Kyiv")]
fn nightly(name: &str) {}

#[reconcile(WebApp, owns = [Deployment, "services", ("apps", "statefulsets")], reads = [CONFIG_MAPS], formerly_owns = [], resync = 3600)]
async fn keep(name: &str) -> HandlerResult<Again> {
    Ok(Again::after(30))
}
