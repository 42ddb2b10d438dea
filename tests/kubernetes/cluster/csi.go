// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"net"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// csiSocket is where the kubelet looks for drivers.
const csiSocket = "/var/lib/kubelet/plugins_registry/csi.isolio.test.sock"

// volumes is a CSI driver for one node. A volume is the ext4 on a block device, which its handle names.
type volumes struct {
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
}

// serveCSI mounts in the namespace that it is started in, the node's. A driver in a pod has its mounts
// there too, by Bidirectional.
func serveCSI() error {
	listener, err := net.Listen("unix", csiSocket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	csi.RegisterNodeServer(server, volumes{})
	registration.RegisterRegistrationServer(server, volumes{})
	return server.Serve(listener)
}

func (volumes) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: "csi.isolio.test", Endpoint: csiSocket, SupportedVersions: []string{"1.0.0"}}, nil
}

func (volumes) NotifyRegistrationStatus(context.Context, *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	return &registration.RegistrationStatusResponse{}, nil
}

func (volumes) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: "node"}, nil
}

func (volumes) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	stages := &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{{Type: &csi.NodeServiceCapability_Rpc{Rpc: stages}}}}, nil
}

func (volumes) NodeStageVolume(_ context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	return &csi.NodeStageVolumeResponse{}, unix.Mount("/dev/"+r.VolumeId, r.StagingTargetPath, "ext4", 0, "")
}

func (volumes) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := os.Mkdir(r.TargetPath, 0o750); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, unix.Mount(r.StagingTargetPath, r.TargetPath, "", unix.MS_BIND, "")
}

func (volumes) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := unix.Unmount(r.TargetPath, 0); err != nil {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, os.Remove(r.TargetPath)
}

// NodeUnstageVolume fails while anything has the device, as one does that closes LUKS or detaches a
// device of a network. The kubelet asks again then, and the volume is not mounted any more.
func (volumes) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if err := unix.Unmount(r.StagingTargetPath, 0); err != nil && err != unix.EINVAL {
		return nil, err
	}
	device, err := os.OpenFile("/dev/"+r.VolumeId, os.O_RDONLY|os.O_EXCL, 0)
	if err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, device.Close()
}
