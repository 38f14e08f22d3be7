//! The attributes of kopf-rs.
