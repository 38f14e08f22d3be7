#[on_create("demo.rtfm.co.ua", "v1", "myapps")]
async fn create_myapp(
    spec: MyAppSpec,
    name: &str,
    namespace: Option<&str>,
    logger: Logger,
    client: Client,
) -> HandlerResult {
    Ok(())
}
