//! Handlers may be private, public, nested in modules and functions, or made by macros.

use kopf_rs::prelude::*;

mod deep {
    pub(crate) mod deeper {
        use kopf_rs::prelude::*;

        #[on_create("kopfexamples")]
        fn nested() {}
    }
}

macro_rules! handler {
    ($name:ident, $resource:literal, $argument:ident: $type:ty) => {
        #[on_create($resource)]
        fn $name($argument: $type) {
            let _ = $argument;
        }
    };
}

handler!(first, "kopfexamples", name: &str);
handler!(second, "kopfexamples", spec: &Value);

#[test]
fn all_are_registered() {
    #[on_create("kopfexamples")]
    fn r#type(#[inject] names: State<u8>) {
        let _ = names;
    }
    let registry = kopf_rs::Registry::in_module(module_path!()).unwrap();
    assert_eq!(registry.len(), 4);
}
