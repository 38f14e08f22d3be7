#[on_startup]
#[on_cleanup(retries = 3)]
async fn announce(activity: &str, client: Client) {}
