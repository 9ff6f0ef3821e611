"""Labels of pixels: a U-Net that learns garments of Fashion-MNIST, centrally and in a federation."""
