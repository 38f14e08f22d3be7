#[on_convert("votes.example.com", from = "v1alpha1", to = "v1")]
fn up(spec: v1alpha1::VoteSpec) -> v1::VoteSpec {
    v1::VoteSpec { options: vec![spec.options] }
}

#[on_convert(from = v1::Vote, to = v1alpha1::Vote)]
fn down(object: &v1::Vote) -> HandlerResult<v1alpha1::Vote> {
    Err(PermanentError::new("no"))
}
