//! The functions that expressions may call: those of the language and those that Kubernetes adds.
//!
//! The real server rejects any function that is not listed here. Independent of expressions.

use super::kind::Kind;

/// One signature of a function; the first operand of a method is its target.
#[derive(Clone, Debug)]
pub(super) struct Overload {
    pub(super) method: bool,
    pub(super) takes: Vec<Kind>,
    pub(super) makes: Kind,
}

/// All functions, one name per line; a leading dot marks an overload that is a method.
const FUNCTIONS: &str = "
!_ bool:bool
-_ int:int double:double
_==_ A,A:bool
_!=_ A,A:bool
_<_ bool,bool:bool int,int:bool uint,uint:bool double,double:bool string,string:bool bytes,bytes:bool timestamp,timestamp:bool duration,duration:bool int,uint:bool int,double:bool uint,int:bool uint,double:bool double,int:bool double,uint:bool
_+_ int,int:int uint,uint:uint double,double:double string,string:string bytes,bytes:bytes [A],[A]:[A] timestamp,duration:timestamp duration,timestamp:timestamp duration,duration:duration
_-_ int,int:int uint,uint:uint double,double:double timestamp,timestamp:duration timestamp,duration:timestamp duration,duration:duration
_*_ int,int:int uint,uint:uint double,double:double
_/_ int,int:int uint,uint:uint double,double:double
_%_ int,int:int uint,uint:uint
_[_] [A],int:A {A;B},A:B ?[A],int:?A ?{A;B},A:?B
_[?_] [A],int:?A {A;B},A:?B ?[A],int:?A ?{A;B},A:?B
@in A,[A]:bool A,{A;B}:bool
_?_:_ bool,A,A:A
size string:int bytes:int [A]:int {A;B}:int .string:int .bytes:int .[A]:int .{A;B}:int
int int:int uint:int double:int string:int timestamp:int duration:int
uint uint:uint int:uint double:uint string:uint
double double:double int:double uint:double string:double
string string:string int:string uint:string double:string bool:string bytes:string timestamp:string duration:string ip:string cidr:string
bool bool:bool string:bool
bytes bytes:bytes string:bytes
timestamp timestamp:timestamp string:timestamp int:timestamp
duration duration:duration string:duration int:duration
dyn A:dyn
type A:type
contains .string,string:bool
startsWith .string,string:bool
endsWith .string,string:bool
matches string,string:bool .string,string:bool
getFullYear .timestamp:int .timestamp,string:int
getMonth .timestamp:int .timestamp,string:int
getDate .timestamp:int .timestamp,string:int
getDayOfMonth .timestamp:int .timestamp,string:int
getDayOfWeek .timestamp:int .timestamp,string:int
getDayOfYear .timestamp:int .timestamp,string:int
getHours .timestamp:int .timestamp,string:int .duration:int
getMinutes .timestamp:int .timestamp,string:int .duration:int
getSeconds .timestamp:int .timestamp,string:int .duration:int
getMilliseconds .timestamp:int .timestamp,string:int .duration:int
charAt .string,int:string
indexOf .string,string:int .string,string,int:int .[A],A:int
lastIndexOf .string,string:int .string,string,int:int .[A],A:int
lowerAscii .string:string
upperAscii .string:string
replace .string,string,string:string .string,string,string,int:string
split .string,string:[string] .string,string,int:[string]
substring .string,int:string .string,int,int:string
trim .string:string
join .[string]:string .[string],string:string
format .string,[dyn]:string
reverse .[A]:[A]
flatten .[[A]]:[A] .[dyn],int:[dyn]
slice .[A],int,int:[A]
sort .[int]:[int] .[uint]:[uint] .[double]:[double] .[bool]:[bool] .[duration]:[duration] .[timestamp]:[timestamp] .[string]:[string] .[bytes]:[bytes]
@sortByAssociatedKeys .[A],[int]:[A] .[A],[uint]:[A] .[A],[double]:[A] .[A],[bool]:[A] .[A],[duration]:[A] .[A],[timestamp]:[A] .[A],[string]:[A] .[A],[bytes]:[A]
lists.range int:[int]
distinct .[A]:[A]
@not_strictly_false bool:bool
cel.@mapInsert {A;B},A,B:{A;B} {A;B},{A;B}:{A;B}
strings.quote string:string
isSorted .[int]:bool .[uint]:bool .[double]:bool .[bool]:bool .[duration]:bool .[timestamp]:bool .[string]:bool .[bytes]:bool
sum .[int]:int .[uint]:uint .[double]:double .[duration]:duration
min .[int]:int .[uint]:uint .[double]:double .[bool]:bool .[duration]:duration .[timestamp]:timestamp .[string]:string .[bytes]:bytes
max .[int]:int .[uint]:uint .[double]:double .[bool]:bool .[duration]:duration .[timestamp]:timestamp .[string]:string .[bytes]:bytes
find .string,string:string
findAll .string,string:[string] .string,string,int:[string]
url string:url
isURL string:bool
getScheme .url:string
getHost .url:string
getHostname .url:string
getPort .url:string
getEscapedPath .url:string
getQuery .url:{string;[string]}
quantity string:quantity
isQuantity string:bool
sign quantity:int
isInteger .quantity:bool
asInteger .quantity:int
asApproximateFloat .quantity:double
add .quantity,quantity:quantity .quantity,int:quantity
sub .quantity,quantity:quantity .quantity,int:quantity
isLessThan .quantity,quantity:bool .semver,semver:bool
isGreaterThan .quantity,quantity:bool .semver,semver:bool
compareTo .quantity,quantity:int .semver,semver:int
ip string:ip .cidr:ip
isIP string:bool
ip.isCanonical string:bool
family .ip:int
isUnspecified .ip:bool
isLoopback .ip:bool
isLinkLocalMulticast .ip:bool
isLinkLocalUnicast .ip:bool
isGlobalUnicast .ip:bool
cidr string:cidr
isCIDR string:bool
containsIP .cidr,string:bool .cidr,ip:bool
containsCIDR .cidr,string:bool .cidr,cidr:bool
prefixLength .cidr:int
masked .cidr:cidr
semver string:semver string,bool:semver
isSemver string:bool string,bool:bool
major .semver:int
minor .semver:int
patch .semver:int
sets.contains [A],[A]:bool
sets.equivalent [A],[A]:bool
sets.intersects [A],[A]:bool
optional.of A:?A
optional.ofNonZeroValue A:?A
optional.none :?A
hasValue .?A:bool
value .?A:A
or .?A,?A:?A
orValue .?A,A:A
first .[A]:?A
last .[A]:?A
optional.unwrap [?A]:[A]
unwrapOpt .[?A]:[A]
format.named string:?format
format.dns1123Label :format
format.dns1123Subdomain :format
format.dns1035Label :format
format.qualifiedName :format
format.dns1123LabelPrefix :format
format.dns1123SubdomainPrefix :format
format.dns1035LabelPrefix :format
format.labelValue :format
format.uri :format
format.uuid :format
format.byte :format
format.date :format
format.datetime :format
validate .format,string:?[string]
";

/// Returns the overloads of a function, or `None` if the name is unknown.
pub(super) fn overloads(name: &str) -> Option<Vec<Overload>> {
    let name = match name {
        "_<=_" | "_>_" | "_>=_" => "_<_",
        name => name,
    };
    let line = FUNCTIONS
        .lines()
        .find(|line| line.split(' ').next() == Some(name) && !line.is_empty())?;
    Some(line.split(' ').skip(1).map(overload).collect())
}

fn overload(form: &str) -> Overload {
    let method = form.starts_with('.');
    let (takes, makes) = form
        .trim_start_matches('.')
        .rsplit_once(':')
        .unwrap_or(("", form));
    let takes = takes.split(',').filter(|part| !part.is_empty());
    Overload {
        method,
        takes: takes.map(kind).collect(),
        makes: kind(makes),
    }
}

fn kind(text: &str) -> Kind {
    let inside = |open: char, close: char| text.strip_prefix(open)?.strip_suffix(close);
    if let Some(of) = inside('[', ']') {
        return Kind::list(kind(of));
    }
    if let Some((key, of)) = inside('{', '}').and_then(|inner| inner.split_once(';')) {
        return Kind::Map(Box::new(kind(key)), Box::new(kind(of)));
    }
    if let Some(of) = text.strip_prefix('?') {
        return Kind::Optional(Box::new(kind(of)));
    }
    match text {
        "A" => Kind::Open(0),
        "B" => Kind::Open(1),
        "bool" => Kind::Bool,
        "int" => Kind::Int,
        "uint" => Kind::Uint,
        "double" => Kind::Double,
        "string" => Kind::Text,
        "bytes" => Kind::Bytes,
        "timestamp" => Kind::Timestamp,
        "duration" => Kind::Duration,
        "type" => Kind::Type,
        "url" => Kind::Named("kubernetes.URL"),
        "quantity" => Kind::Named("kubernetes.Quantity"),
        "ip" => Kind::Named("net.IP"),
        "cidr" => Kind::Named("net.CIDR"),
        "semver" => Kind::Named("kubernetes.Semver"),
        "format" => Kind::Named("kubernetes.NamedFormat"),
        _ => Kind::Dyn,
    }
}
