//! TCP: connections, data, the ways in which they end.

use firstpoll::net::{Error, TcpListener, TcpStream};
use firstpoll::{block_on, spawn};

use crate::peer::start;

#[test]
fn a_connection_is_accepted_and_carries_data_both_ways() {
    let (stack, peer) = start();
    let listener = TcpListener::bind(stack, 80).unwrap();
    let server = spawn(async move {
        let mut stream = listener.accept().await?;
        let mut buffer = [0; 64];
        let count = stream.read(&mut buffer).await?;
        assert_eq!(&buffer[..count], b"ping");
        stream.write_all(b"pong").await?;
        Ok::<_, Error>((stream, listener))
    });
    block_on(async {
        let client = peer.connect(80).await.unwrap();
        client.write_all(b"ping").await;
        assert_eq!(client.read_exactly(4).await, b"pong");
        let (mut stream, _listener) = server.await.unwrap();
        client.close();
        assert_eq!(stream.read(&mut [0; 8]).await, Ok(0));
        stream.shutdown().await.unwrap();
        client.closed().await;
        let _ = TcpStream::peer_addr(&stream);
    });
}
