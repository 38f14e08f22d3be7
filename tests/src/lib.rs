//! Harness for the behaviour tests of kopf-rs: API servers, operators, awaited conditions.
