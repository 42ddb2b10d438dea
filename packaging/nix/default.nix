# SPDX-License-Identifier: MIT
#
# isolio for Nix: pkgs.callPackage ./default.nix { src = ...; version = ...; } of what
# scripts/source makes, with the modules of its kernel as .modules kernel:
#
#   boot.extraModulePackages = [ (isolio.modules config.boot.kernelPackages.kernel) ];
#   environment.systemPackages = [ isolio ];
#   systemd.packages = [ isolio ];
#   services.udev.packages = [ isolio ];
{ lib, stdenv, buildGoModule, src, version }:

let
  isolio = buildGoModule {
    pname = "isolio";
    inherit src version;
    vendorHash = null; # the source has them
    subPackages = [ "cmd/isolio" "cmd/isolio-lab" ];
    tags = [ "nethttpomithttp2" ];
    ldflags = [ "-s" "-w" "-X isolio/internal/cli.Version=${version}" ];
    env.CGO_ENABLED = 0;
    doCheck = false;
    installPhase = ''
      runHook preInstall
      mkdir -p build
      cp "$GOPATH"/bin/isolio "$GOPATH"/bin/isolio-lab build/
      go run -ldflags="-X isolio/internal/cli.Version=${version}" ./packaging/man build/man
      patchShebangs scripts packaging/dkms-make
      PREFIX=/ VERSION=${version} scripts/install-files "$out"
      substituteInPlace "$out"/lib/systemd/system/isolio.service "$out"/lib/systemd/system/isolio-disk@.service --replace-fail "ExecStart=/bin" "ExecStart=$out/bin" \
        --replace-quiet "ExecReload=/bin" "ExecReload=$out/bin"
      rm -r "$out/usr"
      runHook postInstall
    '';
    passthru.modules = modules;
    meta = {
      description = "Weighted sharing of disks among containers";
      license = lib.licenses.mit;
      platforms = lib.platforms.linux;
      mainProgram = "isolio";
    };
  };

  modules = kernel: stdenv.mkDerivation {
    pname = "isolio-modules";
    version = "${version}-${kernel.modDirVersion}";
    inherit src;
    nativeBuildInputs = kernel.moduleBuildDependencies ++ [ isolio ];
    BTF = "${kernel.dev}/vmlinux";
    buildPhase = ''
      cd kernel
      rm -rf kyber-report
      sh ../packaging/dkms-make ${kernel.modDirVersion} ${kernel.dev}/lib/modules/${kernel.modDirVersion}/build ${version}
    '';
    installPhase = ''
      install -D -m 644 -t "$out/lib/modules/${kernel.modDirVersion}/extra/isolio" ./*/*.ko
    '';
    meta = {
      description = "I/O schedulers that share disks by weight";
      license = lib.licenses.gpl2Only;
      platforms = lib.platforms.linux;
    };
  };
in
isolio
