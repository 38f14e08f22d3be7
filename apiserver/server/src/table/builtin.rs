//! The table of columns for built-in kinds.
//!
//! Names, order, types and priorities are those that kube-apiserver 1.36 returns; a kind without a line has the columns for its
//! name and its creation time. Independent of how cells are computed.

use crate::kind::{Column, Kind};

/// One line per kind: `group/plural: column; column`. A column is a name and, after `=`, a path or a function of `cells`;
/// `Name` and `Age` have implicit ones. Prefixes: `*` for columns of wide tables only, `#` for integers, `?` for booleans.
/// After a path, `|` gives the text for an absent value.
const TABLE: &str = "
/pods: Name; Ready=@ready; Status=@phase; Restarts=@restarts; Age; *IP=.status.podIPs[0].ip|<none>; *Node=.spec.nodeName|<none>; *Nominated Node=.status.nominatedNodeName|<none>; *Readiness Gates=@gates
/podtemplates: Name; Containers=@names .template.spec.containers; Images=@images .template.spec.containers; Pod Labels=@labels .template.metadata.labels
/replicationcontrollers: Name; #Desired=.spec.replicas; #Current=.status.replicas; #Ready=.status.readyReplicas; Age; *Containers=@names .spec.template.spec.containers; *Images=@images .spec.template.spec.containers; *Selector=@labels .spec.selector
/services: Name; Type=.spec.type; Cluster-IP=@clusterip; External-IP=@external; Port(s)=@ports; Age; *Selector=@labels .spec.selector
/endpoints: Name; Endpoints=@endpoints; Age
/nodes: Name; Status=@node; Roles=@roles; Age; Version=.status.nodeInfo.kubeletVersion; *Internal-IP=@address InternalIP; *External-IP=@address ExternalIP; *OS-Image=.status.nodeInfo.osImage|<unknown>; *Kernel-Version=@kernel; *Container-Runtime=.status.nodeInfo.containerRuntimeVersion|<unknown>
/events: Last Seen=@last; Type=.type; Reason=.reason; Object=@involved; *Subobject=.involvedObject.fieldPath; *Source=@source; Message=@message; *First Seen=@first; *Count=@count; *Name
/namespaces: Name; Status=.status.phase; Age
/secrets: Name; Type=.type; Data=@size .data; Age
/configmaps: Name; Data=@entries; Age
/serviceaccounts: Name; Age
/persistentvolumes: Name; Capacity=.spec.capacity.storage|0; Access Modes=@modes .spec.accessModes; Reclaim Policy=.spec.persistentVolumeReclaimPolicy; Status=@fate; Claim=@claim; StorageClass=@class; VolumeAttributesClass=.spec.volumeAttributesClassName|<unset>; Reason=.status.reason; Age; *VolumeMode=.spec.volumeMode|<unset>
/persistentvolumeclaims: Name; Status=@fate; Volume=.spec.volumeName; Capacity=@bound .status.capacity.storage; Access Modes=@boundmodes; StorageClass=@class; VolumeAttributesClass=.spec.volumeAttributesClassName|<unset>; Age; *VolumeMode=.spec.volumeMode|<unset>
/componentstatuses: Name; Status=.status; Message=.message; Error=.error
/resourcequotas: Name; Request=@quota requests; Limit=@quota limits; Age
apps/deployments: Name; Ready=@replicas; Up-to-date=@number .status.updatedReplicas; Available=@number .status.availableReplicas; Age; *Containers=@names .spec.template.spec.containers; *Images=@images .spec.template.spec.containers; *Selector=@selected .spec.selector
apps/replicasets: Name; #Desired=.spec.replicas; #Current=.status.replicas; #Ready=.status.readyReplicas; Age; *Containers=@names .spec.template.spec.containers; *Images=@images .spec.template.spec.containers; *Selector=@selector .spec.selector
apps/statefulsets: Name; Ready=@replicas; Age; *Containers=@names .spec.template.spec.containers; *Images=@images .spec.template.spec.containers
apps/daemonsets: Name; #Desired=.status.desiredNumberScheduled; #Current=.status.currentNumberScheduled; #Ready=.status.numberReady; #Up-to-date=.status.updatedNumberScheduled; #Available=.status.numberAvailable; Node Selector=@labels .spec.template.spec.nodeSelector; Age; *Containers=@names .spec.template.spec.containers; *Images=@images .spec.template.spec.containers; *Selector=@selector .spec.selector
apps/controllerrevisions: Name; Controller=@controller; Revision=@number .revision; Age
batch/jobs: Name; Status=@job; Completions=@completions; Duration=@duration; Age; *Containers=@names .spec.template.spec.containers; *Images=@images .spec.template.spec.containers; *Selector=@selector .spec.selector
batch/cronjobs: Name; Schedule=.spec.schedule; Timezone=.spec.timeZone|<none>; ?Suspend=@word .spec.suspend; #Active=@size .status.active; Last Schedule=@since .status.lastScheduleTime; Age; *Containers=@names .spec.jobTemplate.spec.template.spec.containers; *Images=@images .spec.jobTemplate.spec.template.spec.containers; *Selector=@selector .spec.jobTemplate.spec.selector
autoscaling/horizontalpodautoscalers: Name; Reference=@target; Targets=@metrics; MinPods=.spec.minReplicas|<unset>; MaxPods=@number .spec.maxReplicas; Replicas=@number .status.currentReplicas; Age
networking.k8s.io/ingresses: Name; Class=.spec.ingressClassName|<none>; Hosts=@hosts; Address=@balancer; Ports=@tls; Age
networking.k8s.io/ingressclasses: Name=@default ingressclass.kubernetes.io/is-default-class; Controller=.spec.controller; Parameters=@parameters; Age
networking.k8s.io/networkpolicies: Name; Pod-Selector=@selector .spec.podSelector; Age
networking.k8s.io/servicecidrs: Name; CIDRs=@joined .spec.cidrs; Age
networking.k8s.io/ipaddresses: Name; ParentRef=@parent; Age
policy/poddisruptionbudgets: Name; Min Available=.spec.minAvailable|N/A; Max Unavailable=.spec.maxUnavailable|N/A; #Allowed Disruptions=.status.disruptionsAllowed; Age
rbac.authorization.k8s.io/rolebindings: Name; Role=@role; Age; *Users=@subjects User; *Groups=@subjects Group; *ServiceAccounts=@subjects ServiceAccount
rbac.authorization.k8s.io/clusterrolebindings: Name; Role=@role; Age; *Users=@subjects User; *Groups=@subjects Group; *ServiceAccounts=@subjects ServiceAccount
coordination.k8s.io/leases: Name; Holder=.spec.holderIdentity; Age
resource.k8s.io/deviceclasses: Name; Age
resource.k8s.io/resourceclaimtemplates: Name; Age
resource.k8s.io/resourceclaims: Name; State=@allocated; Age
resource.k8s.io/resourceslices: Name; Node=.spec.nodeName; Driver=.spec.driver; Pool=.spec.pool.name; Age
flowcontrol.apiserver.k8s.io/flowschemas: Name; PriorityLevel=.spec.priorityLevelConfiguration.name; MatchingPrecedence=@number .spec.matchingPrecedence; DistinguisherMethod=.spec.distinguisherMethod.type|<none>; Age; MissingPL=@dangling
flowcontrol.apiserver.k8s.io/prioritylevelconfigurations: Name; Type=.spec.type; NominalConcurrencyShares=@given .spec.limited.nominalConcurrencyShares; Queues=@given .spec.limited.limitResponse.queuing.queues; HandSize=@given .spec.limited.limitResponse.queuing.handSize; QueueLengthLimit=@given .spec.limited.limitResponse.queuing.queueLengthLimit; Age
discovery.k8s.io/endpointslices: Name; AddressType=.addressType; Ports=@sliceports; Endpoints=@addresses; Age
scheduling.k8s.io/priorityclasses: Name; #Value=.value; ?Global-Default=.globalDefault; Age; PreemptionPolicy=.preemptionPolicy
node.k8s.io/runtimeclasses: Name; Handler=.handler; Age
storage.k8s.io/storageclasses: Name=@default storageclass.kubernetes.io/is-default-class; Provisioner=.provisioner; ReclaimPolicy=.reclaimPolicy|Delete; VolumeBindingMode=.volumeBindingMode|Immediate; AllowVolumeExpansion=@truth .allowVolumeExpansion; Age
storage.k8s.io/volumeattributesclasses: Name; DriverName=.driverName; Age
storage.k8s.io/volumeattachments: Name; Attacher=.spec.attacher; PV=.spec.source.persistentVolumeName; Node=.spec.nodeName; ?Attached=.status.attached; Age
storage.k8s.io/csinodes: Name; #Drivers=@size .spec.drivers; Age
storage.k8s.io/csidrivers: Name; ?AttachRequired=.spec.attachRequired; ?PodInfoOnMount=.spec.podInfoOnMount; ?StorageCapacity=.spec.storageCapacity; TokenRequests=@audiences; ?RequiresRepublish=.spec.requiresRepublish; Modes=@some .spec.volumeLifecycleModes; Age
admissionregistration.k8s.io/mutatingadmissionpolicies: Name; #Mutations=@size .spec.mutations; ParamKind=@paramkind; Age
admissionregistration.k8s.io/mutatingadmissionpolicybindings: Name; PolicyName=.spec.policyName; ParamRef=@paramref; Age
admissionregistration.k8s.io/mutatingwebhookconfigurations: Name; #Webhooks=@size .webhooks; Age
admissionregistration.k8s.io/validatingwebhookconfigurations: Name; #Webhooks=@size .webhooks; Age
admissionregistration.k8s.io/validatingadmissionpolicies: Name; #Validations=@size .spec.validations; ParamKind=@paramkind; Age
admissionregistration.k8s.io/validatingadmissionpolicybindings: Name; PolicyName=.spec.policyName; ParamRef=@paramref; Age
certificates.k8s.io/certificatesigningrequests: Name; Age; SignerName=.spec.signerName|<none>; Requestor=.spec.username; RequestedDuration=@seconds .spec.expirationSeconds; Condition=@request
apiregistration.k8s.io/apiservices: Name; Service=@service; Available=@available; Age
";

/// The columns of a scale, for all kinds.
const SCALE: &str = "Name; #Desired=.spec.replicas; #Available=.status.replicas; Age";
const OTHERS: &str = "Name; Created At";
/// The columns of custom kinds without printer columns.
const CUSTOM: &str = "Name; Age=.metadata.creationTimestamp";
/// The description of the name column.
const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
/// The description of the age column.
const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Returns the columns of a built-in kind.
pub(super) fn columns(kind: &Kind) -> Vec<Column> {
    let group = if kind.group == "events.k8s.io" {
        ""
    } else {
        &kind.group
    };
    let line = TABLE.lines().find_map(|line| {
        let (name, columns) = line.split_once(": ")?;
        (name.split_once('/')? == (group, kind.plural.as_str())).then_some(columns)
    });
    line.map_or_else(others, read)
}

/// Returns the columns of a scale.
pub(super) fn scale() -> Vec<Column> {
    read(SCALE)
}

/// Returns the columns of built-in kinds without a line in the table.
pub(super) fn others() -> Vec<Column> {
    read(OTHERS)
}

/// Returns the columns of custom kinds without printer columns.
pub(super) fn custom() -> Vec<Column> {
    dated(read(CUSTOM))
}

/// Changes the type of age columns to dates, which custom kinds use.
pub(super) fn dated(mut columns: Vec<Column>) -> Vec<Column> {
    for column in columns.iter_mut().filter(|column| column.name == "Age") {
        "date".clone_into(&mut column.kind);
        AGE.clone_into(&mut column.description);
    }
    columns
}

fn read(columns: &str) -> Vec<Column> {
    columns.split("; ").map(column).collect()
}

fn column(text: &str) -> Column {
    let (text, priority) = text.strip_prefix('*').map_or((text, 0), |rest| (rest, 1));
    let (text, kind) = match text.split_at_checked(1) {
        Some(("#", rest)) => (rest, "integer"),
        Some(("?", rest)) => (rest, "boolean"),
        _ => (text, "string"),
    };
    let (name, path) = text.split_once('=').unwrap_or((text, ""));
    let (kind, path, description) = match (name, path) {
        ("Name", "") => (kind, ".metadata.name", NAME),
        ("Name", path) => (kind, path, NAME),
        ("Age", "") => (kind, "@age", AGE),
        ("Created At", _) => ("date", "@created", AGE),
        (_, path) => (kind, path, ""),
    };
    Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: if name == "Name" { "name" } else { "" }.to_owned(),
        description: description.to_owned(),
        priority,
        path: path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kinds;

    #[test]
    fn every_line_is_of_a_kind_that_is_served() {
        let mut kinds = Kinds::default();
        crate::kind::builtin::add_all(&mut kinds);
        let served = |group: &str, plural: &str| {
            let groups = kinds.groups.iter().filter(|found| found.name == group);
            let mut versions = groups.flat_map(|group| &group.versions);
            versions.any(|version| version.kinds.values().any(|kind| kind.plural == plural))
        };
        for line in TABLE.lines().filter(|line| !line.is_empty()) {
            let (name, columns) = line.split_once(": ").unwrap();
            let (group, plural) = name.split_once('/').unwrap();
            assert!(served(group, plural), "{name}");
            assert!(
                read(columns).iter().all(|column| !column.path.is_empty()),
                "{line}"
            );
        }
    }

    #[test]
    fn a_column_is_read_with_its_marks() {
        let found = column("*#Desired=.spec.replicas");
        assert_eq!(
            (
                found.name.as_str(),
                found.kind.as_str(),
                found.priority,
                found.path.as_str()
            ),
            ("Desired", "integer", 1, ".spec.replicas")
        );
        assert_eq!(column("Age").path, "@age");
    }
}
