"""A model of MLServer with onnxruntime inside, as its documentation describes custom runtimes."""
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse

from session import Session


class OnnxModel(MLModel):
    async def load(self):
        self.session = Session(self.settings.parameters.uri)
        return True

    async def predict(self, payload):
        results, = self.session.run([NumpyCodec.decode_input(payload.inputs[0])])
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=[
            NumpyCodec.encode_output(*pair) for pair in zip(self.session.outputs, results)])
