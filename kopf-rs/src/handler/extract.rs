//! Arguments: the name picks the datum, the type picks the conversion.
